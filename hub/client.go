package hub

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// DefaultEndpoint is the public hub.
const DefaultEndpoint = "https://huggingface.co"

// Client pulls from one endpoint into one cache. Its fields must not change
// while a method runs.
type Client struct {
	Endpoint string // e.g. DefaultEndpoint, without a slash at the end
	// Token is sent to the endpoint's host and to no other; "" sends none.
	Token   string
	Cache   string // folder that holds models--org--name
	Offline bool   // use what the cache has, never the network
	// Parallel is the number of files downloaded at once, 0 is 4.
	Parallel int
	// Report, if not nil, hears how far the files are.
	Report Reporter
	// Notice, if not nil, is called with a sentence about what takes long or is
	// odd.
	Notice func(text string)

	transport http.RoundTripper
	attempts  int           // tries without a byte of progress
	pause     time.Duration // before the second try; doubled for each one after it
	stall     time.Duration // without a byte, after which a connection is given up
	free      func(dir string) (int64, bool)
}

// Reporter hears how a pull goes on. Advance and Done are called from several
// goroutines.
type Reporter interface {
	// Start is called once, with the files that are not in the cache yet.
	Start(files []File)
	// Advance says that n more bytes of file i are there; n is below 0 when it
	// begins anew.
	Advance(i int, n int64)
	// Done says that file i is whole, checked and has its name.
	Done(i int)
}

// FromEnv returns a client set up by the variables that the hub's tools share:
// HF_ENDPOINT, HF_TOKEN (else the file HF_TOKEN_PATH, else HF_HOME/token),
// HF_HUB_CACHE (else HF_HOME/hub, where HF_HOME is ~/.cache/huggingface unless
// set) and HF_HUB_OFFLINE.
func FromEnv() (*Client, error) { return fromEnv(os.Getenv) }

func fromEnv(getenv func(string) string) (*Client, error) {
	first := func(names ...string) string {
		for _, n := range names {
			if v := strings.TrimSpace(getenv(n)); v != "" {
				return v
			}
		}
		return ""
	}
	home := expand(first("HF_HOME"))
	if home == "" {
		base := expand(first("XDG_CACHE_HOME"))
		if base == "" {
			user, err := os.UserHomeDir()
			if err != nil {
				return nil, fmt.Errorf("hub: no folder for the cache: set HF_HOME: %w", err)
			}
			base = filepath.Join(user, ".cache")
		}
		home = filepath.Join(base, "huggingface")
	}
	c := &Client{Endpoint: strings.TrimRight(first("HF_ENDPOINT"), "/"), Token: first("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"),
		Cache: expand(first("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"))}
	if c.Cache == "" {
		c.Cache = filepath.Join(home, "hub")
	}
	if c.Endpoint == "" {
		c.Endpoint = DefaultEndpoint
	}
	if u, err := url.Parse(c.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return nil, fmt.Errorf("hub: HF_ENDPOINT is %q, want an address such as %s", c.Endpoint, DefaultEndpoint)
	}
	switch v := first("HF_HUB_OFFLINE"); strings.ToLower(v) {
	case "", "0", "no", "off", "false":
	case "1", "yes", "on", "true":
		c.Offline = true
	default:
		return nil, fmt.Errorf("hub: HF_HUB_OFFLINE is %q, want 1 or 0", v)
	}
	if c.Token == "" {
		file := expand(first("HF_TOKEN_PATH"))
		if file == "" {
			file = filepath.Join(home, "token")
		}
		b, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("hub: token file: %w", err)
		}
		c.Token = strings.TrimSpace(string(b))
	}
	for _, r := range c.Token {
		if r <= ' ' || r >= 0x7f { // the text itself is not printed
			return nil, fmt.Errorf("hub: the token has a space or a character that no token has; look at HF_TOKEN or the token file")
		}
	}
	return c, nil
}

// expand replaces a leading ~ by the user's folder.
func expand(p string) string {
	if p != "~" && !strings.HasPrefix(p, "~/") {
		return p
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return p
	}
	return filepath.Join(user, p[1:])
}

// settings returns a copy with every zero field set.
func (c *Client) settings() *Client {
	d := *c
	set := func(p *time.Duration, to time.Duration) {
		if *p == 0 {
			*p = to
		}
	}
	if d.Endpoint == "" {
		d.Endpoint = DefaultEndpoint
	}
	if d.Parallel <= 0 {
		d.Parallel = 4
	}
	if d.attempts == 0 {
		d.attempts = 5
	}
	set(&d.pause, time.Second/2)
	set(&d.stall, 60*time.Second)
	if d.free == nil {
		d.free = freeSpace
	}
	if d.Notice == nil {
		d.Notice = func(string) {}
	}
	if d.Report == nil {
		d.Report = silent{}
	}
	if d.transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = d.stall
		t.MaxIdleConnsPerHost = d.Parallel
		d.transport = t
	}
	return &d
}

// closeIdle ends connections that the pull leaves open.
func (c *Client) closeIdle() {
	if t, ok := c.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

type silent struct{}

func (silent) Start([]File)       {}
func (silent) Advance(int, int64) {}
func (silent) Done(int)           {}

// agent is what servers see.
var agent = "graphrun (" + runtime.GOOS + "; " + runtime.GOARCH + ")"
