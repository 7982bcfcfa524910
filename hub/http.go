package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxRedirects  = 10
	maxRetryAfter = 5 * time.Minute // a server that asks for more gets an error
)

// StatusError is an answer of the server that is no success.
type StatusError struct {
	URL     string
	Status  int
	Message string        // the server's, "" if it gave none
	After   time.Duration // what Retry-After asks for
	Help    string        // what to do
}

// Error prints address, status, the server's words and what to do.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("hub: %s: the server answers %d %s", e.URL, e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Help != "" {
		s += "; " + e.Help
	}
	return s
}

// temporary reports whether the same request may succeed later.
func (e *StatusError) temporary() bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly:
		return true
	}
	return e.Status >= 500 && e.Status != http.StatusNotImplemented
}

// do sends a request and follows redirects, with the token only where it
// belongs. An answer that is no success is a *StatusError.
func (c *Client) do(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", agent)
	req.Header.Set("Accept-Encoding", "identity") // lengths and ranges are those of the file
	home := req.URL
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := http.Client{Transport: c.transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		// The standard library sends the header to other ports of a host and to
		// its subdomains too.
		if next.URL.Host != home.Host || next.URL.Scheme != home.Scheme {
			next.Header.Del("Authorization")
		}
		next.Header.Del("Referer")
		switch {
		case next.URL.Scheme != "https" && next.URL.Scheme != "http":
			return permanent{fmt.Errorf("redirected to %q, want https", next.URL.Scheme)}
		case home.Scheme == "https" && next.URL.Scheme == "http":
			return permanent{errors.New("redirected from https to http; refused")}
		case len(via) >= maxRedirects:
			return permanent{fmt.Errorf("more than %d redirects", maxRedirects)}
		}
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var u *url.Error // it repeats the address with secrets of signed links
		if errors.As(err, &u) {
			err = u.Err
		}
		if p := (permanent{}); errors.As(err, &p) {
			return nil, permanent{fmt.Errorf("hub: %s: %w", address, p.err)}
		}
		return nil, fmt.Errorf("hub: %s: %w", address, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, c.statusError(address, resp)
	}
	return resp, nil
}

// statusError makes an error of an answer.
func (c *Client) statusError(address string, resp *http.Response) *StatusError {
	e := &StatusError{URL: address, Status: resp.StatusCode, Message: oneLine(resp.Header.Get("X-Error-Message")), After: retryAfter(resp.Header)}
	if e.Message == "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		e.Message = oneLine(string(b))
	}
	token := "set HF_TOKEN, or put the token into the file HF_HOME/token"
	if c.Token != "" {
		token = "the token that is set has no access"
	}
	switch {
	case resp.Header.Get("X-Error-Code") == "GatedRepo":
		e.Help = "accept the terms on the model's page, and " + token
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		e.Help = "the repository does not exist, or is private or gated: " + token
	case e.Status == http.StatusNotFound:
		e.Help = "look at the spelling of repository, revision and file"
	case e.Status == http.StatusTooManyRequests:
		e.Help = "try again later"
	}
	return e
}

// retryAfter reads a number of seconds or a date.
func retryAfter(h http.Header) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.Atoi(v); err == nil && n >= 0 {
		return time.Duration(min(n, 1<<30)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}

// oneLine makes a server's text fit for a message.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return strings.TrimSpace(s)
}

// permanent marks an error after which trying again is of no use.
type permanent struct{ err error }

func (p permanent) Error() string { return p.err.Error() }
func (p permanent) Unwrap() error { return p.err }

// retry calls try until it succeeds, fails for good, or has failed as often as
// is allowed without progress. try returns how far it came.
func (c *Client) retry(ctx context.Context, what string, try func() (at int64, err error)) error {
	best := int64(-1)
	failures := 0
	for {
		at, err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var p permanent
		if errors.As(err, &p) {
			return p.err
		}
		var status *StatusError
		wait := time.Duration(0)
		if errors.As(err, &status) {
			if !status.temporary() {
				return err
			}
			wait = status.After
			if wait > maxRetryAfter {
				return fmt.Errorf("%w (it asks to wait for %s)", err, wait.Round(time.Second))
			}
		}
		if at > best {
			best, failures = at, 0
		}
		if failures++; failures >= c.attempts {
			return fmt.Errorf("%w (tried %d times; what is there is kept, pull again to go on)", err, failures)
		}
		if back := c.pause << (failures - 1); wait < back {
			wait = back + time.Duration(rand.Int64N(int64(back)/4+1))
		}
		if wait >= 2*time.Second {
			c.Notice(fmt.Sprintf("%s: %v; trying again in %s", what, err, wait.Round(time.Second)))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
