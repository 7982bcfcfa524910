package hub

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// TestKilledPull is not a test: TestKill runs it as a process of its own.
func TestKilledPull(t *testing.T) {
	endpoint := os.Getenv("HUB_TEST_ENDPOINT")
	if endpoint == "" {
		t.Skip("runs as a part of TestKill")
	}
	c := &Client{Endpoint: endpoint, Cache: os.Getenv("HUB_TEST_CACHE"), pause: time.Millisecond}
	if _, err := c.Pull(context.Background(), Name{Repo: "org/model"}); err != nil {
		t.Fatal(err)
	}
}

// A program that is killed at any moment leaves no half file under a final
// name, and the next one goes on. GRAPHRUN_KILLS sets how often; each pull of a
// series is killed until one comes to its end.
func TestKill(t *testing.T) {
	kills := 5
	if v := os.Getenv("GRAPHRUN_KILLS"); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	h := newFakeHub(t, map[string][]byte{
		"config.json": []byte("{}"), "tokenizer.json": noise(300_000, 1),
		"model-00001-of-00002.safetensors": noise(4_000_000, 2), "model-00002-of-00002.safetensors": noise(3_000_000, 3),
	})
	h.slow.Store(int64(4 * time.Millisecond))
	name := Name{Repo: "org/model"}
	c := h.client(t)
	wasted := int64(0)
	for done := 0; done < kills; {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledPull$")
		cmd.Env = append(os.Environ(), "HUB_TEST_ENDPOINT="+h.api.URL, "HUB_TEST_CACHE="+c.Cache)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		exit := make(chan error, 1)
		go func() { exit <- cmd.Wait() }()
		select {
		case err := <-exit:
			if err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
			// This one came to its end. The next series begins anew.
			h.check(t, c, name)
			c = h.client(t)
			continue
		case <-time.After(time.Duration(rand.Int64N(int64(250 * time.Millisecond)))):
		}
		cmd.Process.Kill()
		<-exit
		done++
		whole(t, h, c.Cache)
		if t.Failed() {
			return
		}
	}
	h.mu.Lock()
	h.slow.Store(0)
	h.requests = nil
	before := h.sent.Load()
	h.mu.Unlock()
	if _, err := c.Pull(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	h.check(t, c, name)
	h.mu.Lock()
	wasted = h.sent.Load() - before
	h.mu.Unlock()
	if all := int64(7_300_002); wasted > all {
		t.Errorf("the last pull took %d bytes, more than all %d", wasted, all)
	}
	t.Logf("%d kills; the last pull took %d bytes, with %d ranges", kills, wasted, h.count("bytes="))
}

// check fails unless the cache has the whole model and nothing else.
func (h *fakeHub) check(t *testing.T, c *Client, name Name) {
	t.Helper()
	s, err := c.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Files) != len(h.files) {
		t.Errorf("%d files, want %d", len(s.Files), len(h.files))
	}
	whole(t, h, c.Cache)
	if list := leftovers(t, c.Cache); len(list) > 0 {
		t.Errorf("left behind: %v", fmt.Sprint(list))
	}
}
