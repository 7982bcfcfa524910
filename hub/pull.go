package hub

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Pull brings what a name means into the cache and returns where it lies. Files
// that are there are not downloaded again.
//
// Without Quant and Files the rule is: the one model of the repository's GGUF
// files; of several the one of type Q4_K_M; without GGUF files the weights
// model*.safetensors with configuration and tokenizer. Anything else is an
// error that lists what there is.
func (c *Client) Pull(ctx context.Context, n Name) (*Snapshot, error) {
	if c.Offline {
		return c.Find(n)
	}
	c = c.settings()
	defer c.closeIdle()
	if c.Token != "" && strings.HasPrefix(c.Endpoint, "http://") && !loopback(c.Endpoint) {
		c.Notice("the token goes to " + c.Endpoint + " without encryption")
	}
	l, err := c.list(ctx, n)
	if err != nil {
		return nil, err
	}
	ch, err := choose(n, l.files)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, c.page(n.Repo))
	}
	dir := filepath.Join(c.Cache, n.folder())
	s := &Snapshot{Repo: n.Repo, Commit: l.commit, Dir: filepath.Join(dir, "snapshots", l.commit)}
	s.take(ch)
	jobs, err := c.plan(n, s, dir)
	if err != nil {
		return nil, err
	}
	start := make([]File, len(jobs))
	for i, j := range jobs {
		start[i] = j.file
	}
	c.Report.Start(start)
	var fetched atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.Parallel)
	for i, j := range jobs {
		j.advance = func(n int64) { c.Report.Advance(i, n) }
		j.fetched = &fetched
		g.Go(func() error {
			if err := j.run(ctx); err != nil {
				return err
			}
			c.Report.Done(i)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// Last, so that a pull that fails leaves the commit that was whole.
	if rev := n.revision(); rev != l.commit {
		if err := writeRef(dir, rev, l.commit); err != nil {
			return nil, err
		}
	}
	s.Fetched = fetched.Load()
	return s, nil
}

func loopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	h := u.Hostname()
	return h == "localhost" || h == "::1" || strings.HasPrefix(h, "127.")
}

// plan returns the downloads that are missing and makes sure that the disk can
// hold them. Files whose blob is there get their name in the snapshot.
func (c *Client) plan(n Name, s *Snapshot, dir string) ([]*job, error) {
	var jobs []*job
	var need int64
	for _, f := range s.Files {
		blob := filepath.Join(dir, "blobs", f.Hash)
		if f.Size >= 0 && hasSize(f.Path, f.Size) {
			continue // also where another tool put the file itself here
		}
		if err := f.check(); err != nil {
			return nil, err
		}
		address := c.Endpoint + "/" + n.Repo + "/resolve/" + s.Commit + "/" + escapePath(f.Name)
		j := &job{c: c, file: f, url: address, blob: blob, lock: filepath.Join(c.Cache, ".locks", n.folder(), f.Hash+".lock")}
		jobs = append(jobs, j)
		if hasSize(blob, f.Size) {
			continue // the job links it, under the lock
		}
		left := f.Size
		if st, err := os.Stat(j.part()); err == nil && st.Size() <= f.Size {
			left -= st.Size()
		}
		if need > math.MaxInt64-left {
			return nil, fmt.Errorf("hub: the server gives %s the size %d, which no disk holds", f.Name, f.Size)
		}
		need += left
	}
	if need == 0 {
		return jobs, nil
	}
	if err := os.MkdirAll(filepath.Join(dir, "blobs"), 0o755); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	if free, ok := c.free(dir); ok && free < need {
		return nil, fmt.Errorf("hub: %s needs %s more, the disk of %s has %s free; make room, or set HF_HUB_CACHE to a folder on another disk",
			n.Repo, size(need), c.Cache, size(free))
	}
	// Small files first: what is wrong with a repository shows early.
	slices.SortStableFunc(jobs, func(a, b *job) int { return int(min(max(a.file.Size-b.file.Size, -1), 1)) })
	return jobs, nil
}

// hasSize reports whether path is a file of that many bytes.
func hasSize(path string, n int64) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Size() == n
}

func escapePath(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// size prints bytes for people.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d bytes", n)
}

// noSpace makes a full disk's error say what to do.
func noSpace(err error) error {
	if errors.Is(err, errNoSpace) {
		return fmt.Errorf("%w; make room and pull again, what is there is kept", err)
	}
	return err
}
