package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// docAddress is where the pages let servers listen; the test takes a free port.
const docAddress = "127.0.0.1:8080"

// serve starts a server that runs until the test ends, and waits until it is
// ready.
func (s *shell) serve(t *testing.T, args []string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.address = ln.Addr().String()
	ln.Close()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], docAddress, s.address)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, s.graphrun, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Stderr = s.dir, &out
	if err := cmd.Start(); err != nil {
		cancel()
		return err
	}
	t.Cleanup(func() { cancel(); cmd.Wait() })
	for range 600 {
		resp, err := http.Get("http://" + s.address + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	cancel()
	cmd.Wait()
	return fmt.Errorf("the server does not get ready: %s", out.String())
}

// curl does what the pages let curl do: a URL, -H and -d in single quotes.
func (s *shell) curl(line string) (string, error) {
	parts := strings.Split(line, "'")
	var args []string
	for i, p := range parts {
		if i%2 == 1 {
			args = append(args, p)
		} else {
			args = append(args, strings.Fields(p)...)
		}
	}
	method, url, body := http.MethodGet, "", ""
	header := http.Header{}
	for i := 1; i < len(args); i++ {
		switch {
		case args[i] == "-H" && i+1 < len(args):
			i++
			k, v, _ := strings.Cut(args[i], ": ")
			header.Set(k, v)
		case args[i] == "-d" && i+1 < len(args):
			i++
			method, body = http.MethodPost, args[i]
		default:
			url = strings.ReplaceAll(args[i], docAddress, s.address)
		}
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}
