package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"graphrun/engine"
	"graphrun/loaders"
)

// defaultServerTolerance is how far the log-probabilities of two engines may
// differ where a token has a hundredth of the probability or more. Engines that
// round activations differently stay below it for the same file.
const defaultServerTolerance = 0.2

// countedLogprob is the logarithm of a hundredth.
const countedLogprob = -4.605

// serverPosition compares one place of the text.
type serverPosition struct {
	Position int                `json:"position"`
	Token    int32              `json:"token"` // the one that stands there
	Text     string             `json:"text"`
	Ours     map[string]float64 `json:"ours"`
	Theirs   map[string]float64 `json:"theirs"`
	Worst    float64            `json:"worst"` // difference, of tokens that both name
	Same     bool               `json:"same_first_choice"`
	Bad      bool               `json:"out_of_tolerance,omitempty"`

	common int // tokens that both name
}

// serverReport is what check --server found.
type serverReport struct {
	Model     string           `json:"model"`
	Server    string           `json:"server"`
	Mode      string           `json:"mode"` // "echo": one request; "step": one for each position
	Tokens    []int32          `json:"tokens"`
	Tolerance float64          `json:"tolerance"`
	Positions []serverPosition `json:"positions"`
	Worst     float64          `json:"worst"`
	Same      int              `json:"same_first_choice"`
}

// runServer compares with a server.
func (f *checkFlags) runServer(cmd *cobra.Command, list []string) error {
	u, err := url.Parse(f.server)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return usagef("--server is %q, want a URL such as http://127.0.0.1:8080", f.server)
	case f.against != "":
		return usagef("--server and --against are two comparisons; give one")
	case !isOneOf(f.serverMode, []string{"auto", "echo", "step"}):
		return usagef("--server-mode is %q, want auto, echo or step", f.serverMode)
	case f.top < 1 || f.top > 20:
		return usagef("--top is %d, want 1 to 20", f.top)
	}
	path, err := modelArg(cmd, list)
	if err != nil {
		return err
	}
	m, err := f.open(cmd, path, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	ids := m.Encode(checkText)
	if f.tokens != "" {
		if ids, err = parseTokens(f.tokens, m); err != nil {
			return err
		}
	}
	if len(ids) < 2 {
		return usagef("%d token to compare; want 2 or more", len(ids))
	}
	s := m.NewSession()
	defer s.Close()
	scores, err := s.Score(cmd.Context(), ids, f.top)
	if err != nil {
		return err
	}
	r := &serverReport{Model: m.File.Path, Server: f.server, Tokens: ids, Tolerance: f.tolerance}
	if r.Tolerance == 0 {
		r.Tolerance = defaultServerTolerance
	}
	c := &serverClient{url: strings.TrimSuffix(strings.TrimSuffix(u.String(), "/"), "/v1"), key: os.Getenv("OPENAI_API_KEY"), name: f.serverModel, top: f.top}
	theirs, err := c.positions(cmd.Context(), ids, f.serverMode)
	if err != nil {
		return fmt.Errorf("server %s: %w", f.server, err)
	}
	r.Mode = c.mode
	for i := 1; i < len(ids); i++ {
		r.add(i, m.Tokenizer, &scores[i], theirs[i])
	}
	if f.output == "json" {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
	} else {
		err = r.print(cmd.OutOrStdout(), f.all)
	}
	if err != nil {
		return err
	}
	for _, p := range r.Positions {
		if p.Bad && p.common == 0 {
			return fmt.Errorf("position %d (token %d, %q): none of the likeliest tokens is one of the server's, so it has another model or another tokenizer: %w", p.Position, p.Token, p.Text, errTolerance)
		}
		if p.Bad {
			return fmt.Errorf("position %d (token %d, %q) differs by %.3g, tolerance %g: %w", p.Position, p.Token, p.Text, p.Worst, r.Tolerance, errTolerance)
		}
	}
	return nil
}

// tokenKey is how a token is named in log-probabilities: its text, or its bytes
// where they are none.
func tokenKey(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	s.WriteString("bytes:")
	for _, c := range b {
		fmt.Fprintf(&s, `\x%02x`, c)
	}
	return s.String()
}

// add compares a position.
func (r *serverReport) add(i int, t *loaders.Tokenizer, s *engine.Score, theirs map[string]float64) {
	name := func(id int32) string {
		if b := t.Piece(id); len(b) > 0 {
			return tokenKey(b)
		}
		return t.TokenText(id)
	}
	p := serverPosition{Position: i, Token: s.ID, Text: name(s.ID), Ours: map[string]float64{}, Theirs: theirs}
	first := ""
	for k, x := range s.Top {
		text := name(x.ID)
		if k == 0 {
			first = text
		}
		if _, ok := p.Ours[text]; !ok {
			p.Ours[text] = x.Logprob
		}
	}
	best := math.Inf(-1)
	for text, v := range theirs {
		best = max(best, v)
		mine, ok := p.Ours[text]
		if !ok {
			continue
		}
		p.common++
		d := math.Abs(mine - v)
		p.Worst = max(p.Worst, d)
		p.Bad = p.Bad || max(mine, v) > countedLogprob && !(d <= r.Tolerance)
	}
	// Equal probabilities may be listed in any order.
	v, ok := theirs[first]
	p.Same = ok && v >= best-1e-6
	p.Bad = p.Bad || p.common == 0
	r.Worst = max(r.Worst, p.Worst)
	if p.Same {
		r.Same++
	}
	r.Positions = append(r.Positions, p)
}

// print writes the report for people.
func (r *serverReport) print(w io.Writer, all bool) error {
	how := "one request with echo"
	if r.Mode == "step" {
		how = "a request for each position"
	}
	fmt.Fprintf(w, "%s against %s: %d positions, %s, tolerance %g\n", r.Model, r.Server, len(r.Positions), how, r.Tolerance)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	bad, begun := 0, false
	for _, p := range r.Positions {
		if p.Bad {
			bad++
		}
		if !all && !p.Bad && p.Same {
			continue
		}
		if !begun {
			begun = true
			fmt.Fprintf(tab, "position\ttoken\ttext\tdifference\tfirst choice\t\n")
		}
		same, mark := "same", ""
		if !p.Same {
			same = "another"
		}
		diff := fmt.Sprintf("%.3g", p.Worst)
		if p.common == 0 {
			diff = "nothing shared"
		}
		if p.Bad {
			mark = "out of tolerance"
		}
		fmt.Fprintf(tab, "%d\t%d\t%q\t%s\t%s\t%s\n", p.Position, p.Token, p.Text, diff, same, mark)
	}
	tab.Flush()
	fmt.Fprintf(w, "worst difference %.3g, same first choice in %d of %d positions\n", r.Worst, r.Same, len(r.Positions))
	if bad > 0 {
		_, err := fmt.Fprintf(w, "%d positions are out of tolerance\n", bad)
		return err
	}
	_, err := fmt.Fprintln(w, "all positions are within tolerance")
	return err
}

// serverClient asks a server for log-probabilities.
type serverClient struct {
	url, key, name string
	top            int
	mode           string // the one that worked
}

// positions returns what the server finds likely at each position; nothing for
// the first. Servers that give no log-probabilities of a prompt are asked once
// for each position.
func (c *serverClient) positions(ctx context.Context, ids []int32, mode string) ([]map[string]float64, error) {
	if mode != "step" {
		list, err := c.ask(ctx, ids, map[string]any{"echo": true, "max_tokens": 0})
		switch {
		case err == nil && len(list) == len(ids):
			c.mode = "echo"
			return list, nil
		case mode == "echo" && err != nil:
			return nil, err
		case mode == "echo":
			return nil, fmt.Errorf("%d tokens with log-probabilities for a prompt of %d; try --server-mode step", len(list), len(ids))
		case err != nil && !errors.Is(err, errServerRefuses):
			return nil, err
		}
	}
	c.mode = "step"
	out := make([]map[string]float64, len(ids))
	for i := 1; i < len(ids); i++ {
		list, err := c.ask(ctx, ids[:i], map[string]any{"max_tokens": 1})
		if err != nil {
			return nil, err
		}
		if len(list) != 1 {
			return nil, fmt.Errorf("%d tokens with log-probabilities for an answer of one; does the server offer logprobs?", len(list))
		}
		out[i] = list[0]
	}
	return out, nil
}

// errServerRefuses is an answer other than 200.
var errServerRefuses = errors.New("the request is refused")

// serverTimeout bounds one request.
const serverTimeout = 10 * time.Minute

func (c *serverClient) ask(ctx context.Context, ids []int32, more map[string]any) ([]map[string]float64, error) {
	body := map[string]any{"prompt": ids, "logprobs": c.top, "temperature": 0}
	if c.name != "" {
		body["model"] = c.name
	}
	for k, v := range more {
		body[k] = v
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/completions", bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: status %d: %.200s", errServerRefuses, resp.StatusCode, strings.TrimSpace(string(data)))
	}
	return readTop(data)
}

// readTop reads the likely tokens of each position: lists as completions have
// them, or objects as chats do.
func readTop(data []byte) ([]map[string]float64, error) {
	var x struct {
		Choices []struct {
			Logprobs *struct {
				Top     []map[string]float64 `json:"top_logprobs"`
				Content []struct {
					Top []struct {
						Token   string
						Logprob float64
						Bytes   []byte1
					} `json:"top_logprobs"`
				}
			}
		}
	}
	if err := json.Unmarshal(data, &x); err != nil {
		return nil, fmt.Errorf("the answer is not what /v1/completions gives: %v", err)
	}
	if len(x.Choices) == 0 || x.Choices[0].Logprobs == nil {
		return nil, errors.New("the answer has no log-probabilities")
	}
	l := x.Choices[0].Logprobs
	if l.Content == nil {
		return l.Top, nil
	}
	var out []map[string]float64
	for _, c := range l.Content {
		m := map[string]float64{}
		for _, t := range c.Top {
			key := t.Token
			if len(t.Bytes) > 0 {
				b := make([]byte, len(t.Bytes))
				for i, n := range t.Bytes {
					b[i] = byte(n)
				}
				key = tokenKey(b)
			}
			if _, ok := m[key]; !ok {
				m[key] = t.Logprob
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// byte1 is a byte in a list of numbers; encoding/json reads []byte from base64.
type byte1 int
