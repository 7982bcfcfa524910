package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"graphrun/internal/blockwrite"
)

// job is the download of one file.
type job struct {
	c       *Client
	file    File
	url     string
	blob    string // where the contents will lie
	lock    string
	advance func(n int64)
	fetched *atomic.Int64

	shown int64 // bytes that advance has heard of
}

// part returns the name of the file while it is not whole. Other tools use the
// same, and their beginnings are gone on with.
func (j *job) part() string { return j.blob + ".incomplete" }

// run downloads, checks and names the file, under the lock that other tools
// take too.
func (j *job) run(ctx context.Context) error {
	release, err := acquire(ctx, j.lock, func() {
		j.c.Notice("waiting for another program that downloads " + j.file.Name)
	})
	if err != nil {
		return err
	}
	defer release()
	if !hasSize(j.blob, j.file.Size) { // another program may have finished it
		if err := j.download(ctx); err != nil {
			return noSpace(err)
		}
	}
	j.show(j.file.Size)
	return publish(j.blob, j.file.Path)
}

// show tells the reporter how many bytes are there.
func (j *job) show(at int64) {
	if at != j.shown {
		j.advance(at - j.shown)
		j.shown = at
	}
}

// errHash says that the contents are not what the server announced.
var errHash = errors.New("wrong hash")

func (j *job) download(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(j.blob), 0o755); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	f, err := os.OpenFile(j.part(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	defer f.Close()
	for again := false; ; again = true {
		resumed, err := j.fill(ctx, f)
		if err == nil {
			break
		}
		if errors.Is(err, errHash) {
			if err2 := f.Truncate(0); err2 != nil {
				return fmt.Errorf("hub: %w", err2)
			}
			if resumed && !again {
				j.c.Notice(j.file.Name + ": what an earlier download left is damaged; beginning anew")
				continue
			}
		}
		// A beginning is kept, to go on from. An empty one says nothing.
		if st, err2 := f.Stat(); err2 == nil && st.Size() == 0 {
			f.Close()
			os.Remove(j.part())
		}
		return err
	}
	// The name must not outlive its contents when the power fails.
	if err := f.Sync(); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if err := os.Rename(j.part(), j.blob); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// fill makes f whole and checks it. resumed says that the beginning was there.
func (j *job) fill(ctx context.Context, f *os.File) (resumed bool, err error) {
	st, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("hub: %w", err)
	}
	w := &part{f: f, size: j.file.Size, job: j}
	if st.Size() > j.file.Size {
		if err := w.reset(); err != nil {
			return false, err
		}
	} else if err := w.begin(st.Size()); err != nil {
		return false, err
	}
	resumed = w.at > 0
	ranges := true
	for w.at < w.size || w.size == 0 && !w.touched {
		err = j.c.retry(ctx, j.file.Name, func() (int64, error) {
			err := j.request(ctx, w, &ranges)
			return w.best, err
		})
		if err != nil {
			return resumed, err
		}
	}
	if got := w.sum(); got != j.file.Hash {
		return resumed, fmt.Errorf("hub: %s: the contents have the hash %s, the server announced %s (%w); they were removed", j.url, got, j.file.Hash, errHash)
	}
	return resumed, nil
}

// request asks for the bytes that are missing and appends what comes.
func (j *job) request(ctx context.Context, w *part, ranges *bool) error {
	header := http.Header{}
	asked := w.at > 0 && *ranges
	if asked {
		header.Set("Range", fmt.Sprintf("bytes=%d-", w.at))
	} else if err := w.reset(); err != nil {
		return permanent{err}
	}
	resp, err := j.c.do(ctx, j.url, header)
	if err != nil {
		var status *StatusError
		if errors.As(err, &status) && status.Status == http.StatusRequestedRangeNotSatisfiable {
			*ranges = false // begin anew, without
			status.Status = http.StatusServiceUnavailable
			return fmt.Errorf("hub: %s: the server refuses to go on at byte %d: %w", j.url, w.at, status)
		}
		return err
	}
	defer resp.Body.Close()
	if err := j.sameFile(resp); err != nil {
		return err
	}
	switch {
	case resp.StatusCode == http.StatusPartialContent && !asked:
		return permanent{fmt.Errorf("hub: %s: the server sends a part, the whole was asked for", j.url)}
	case resp.StatusCode == http.StatusPartialContent:
		from, total, err := contentRange(resp.Header.Get("Content-Range"))
		if err != nil || from != w.at || total >= 0 && total != w.size {
			*ranges = false
			return fmt.Errorf("hub: %s: asked for bytes from %d of %d, the server sends %q", j.url, w.at, w.size, oneLine(resp.Header.Get("Content-Range")))
		}
	default: // the whole file, whatever was asked
		if err := w.reset(); err != nil {
			return permanent{err}
		}
		if n := resp.ContentLength; n > w.size {
			return permanent{fmt.Errorf("hub: %s: the server sends %d bytes, its list says %d", j.url, n, w.size)}
		}
	}
	body := j.c.watch(resp.Body)
	defer body.stop()
	_, err = io.CopyBuffer(w, body, make([]byte, 256<<10))
	if err2 := w.flush(); err2 != nil {
		return permanent{err2}
	}
	if err != nil {
		var own writeError
		if errors.As(err, &own) {
			return permanent{own.error}
		}
		return fmt.Errorf("hub: %s: after %d of %d bytes: %w", j.url, w.at, w.size, err)
	}
	w.touched = true
	if w.at < w.size {
		return fmt.Errorf("hub: %s: the server ended after %d of %d bytes", j.url, w.at, w.size)
	}
	return nil
}

// sameFile compares what the answer, or one that redirected here, says about
// the file with the list. The storage behind a redirect has tags of its own.
func (j *job) sameFile(resp *http.Response) error {
	for r := resp; r != nil && r.Request != nil; r = r.Request.Response {
		tag := strings.ToLower(strings.Trim(strings.TrimPrefix(r.Header.Get("X-Linked-Etag"), "W/"), `"`))
		if (isSHA256(tag) || isSHA1(tag)) && len(tag) == len(j.file.Hash) && tag != j.file.Hash {
			return permanent{fmt.Errorf("hub: %s: the server says the hash is %s, its list says %s", j.url, tag, j.file.Hash)}
		}
		if n, err := strconv.ParseInt(r.Header.Get("X-Linked-Size"), 10, 64); err == nil && n != j.file.Size {
			return permanent{fmt.Errorf("hub: %s: the server says the size is %d, its list says %d", j.url, n, j.file.Size)}
		}
	}
	return nil
}

// contentRange reads "bytes FROM-TO/TOTAL"; total is -1 for *.
func contentRange(s string) (from, total int64, err error) {
	bad := fmt.Errorf("Content-Range %q", s)
	span, of, ok := strings.Cut(strings.TrimPrefix(s, "bytes "), "/")
	first, _, ok2 := strings.Cut(span, "-")
	if !ok || !ok2 || !strings.HasPrefix(s, "bytes ") {
		return 0, 0, bad
	}
	if from, err = strconv.ParseInt(first, 10, 64); err != nil {
		return 0, 0, bad
	}
	if of == "*" {
		return from, -1, nil
	}
	if total, err = strconv.ParseInt(of, 10, 64); err != nil {
		return 0, 0, bad
	}
	return from, total, nil
}

// part is a file that grows, and the hash of what it holds.
type part struct {
	f       *os.File
	job     *job
	at      int64
	best    int64 // the furthest it ever came
	size    int64
	touched bool // an answer came to its end
	h       hash.Hash
	out     *blockwrite.Writer // to f
	flushed time.Time
}

// flushAfter is how much of a download a killed process loses at most. Networks
// that fill a block in that time leave a file in large pages.
const flushAfter = 5 * time.Second

// writeError is a failure of this machine, not of the network.
type writeError struct{ error }

// begin takes over the n bytes that are there.
func (p *part) begin(n int64) error {
	p.at = 0
	switch len(p.job.file.Hash) {
	case 64:
		p.h = sha256.New()
	default: // Git hashes a header before the contents
		p.h = sha1.New()
		fmt.Fprintf(p.h, "blob %d\x00", p.size)
	}
	if _, err := p.f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if n > 0 {
		got, err := io.Copy(p.h, io.LimitReader(p.f, n))
		if err != nil || got != n {
			return fmt.Errorf("hub: %s: reading what is there: %d of %d bytes: %w", p.f.Name(), got, n, errors.Join(err, io.ErrUnexpectedEOF))
		}
	}
	p.at, p.best = n, max(p.best, n)
	p.out, p.flushed = blockwrite.New(p.f, n), time.Now()
	p.job.show(n)
	return nil
}

// reset throws away what is there.
func (p *part) reset() error {
	if p.at == 0 && p.h != nil {
		return nil
	}
	if err := p.f.Truncate(0); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return p.begin(0)
}

// Write implements io.Writer. More than the size is an error.
func (p *part) Write(b []byte) (int, error) {
	if int64(len(b)) > p.size-p.at {
		return 0, writeError{fmt.Errorf("hub: %s: the server sends more than the %d bytes of its list", p.job.url, p.size)}
	}
	n, err := p.out.Write(b)
	if err == nil && time.Since(p.flushed) > flushAfter {
		p.flushed, err = time.Now(), p.out.Flush()
	}
	p.h.Write(b[:n])
	p.at += int64(n)
	p.best = max(p.best, p.at)
	p.job.fetched.Add(int64(n))
	p.job.show(p.at)
	if err != nil {
		return n, writeError{fmt.Errorf("hub: %w", err)}
	}
	return n, nil
}

// flush writes what came to the file.
func (p *part) flush() error {
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

func (p *part) sum() string { return hex.EncodeToString(p.h.Sum(nil)) }

// watched ends a body from which nothing comes.
type watched struct {
	body  io.ReadCloser
	limit time.Duration
	timer *time.Timer
	dead  atomic.Bool
}

func (c *Client) watch(body io.ReadCloser) *watched {
	w := &watched{body: body, limit: c.stall}
	w.timer = time.AfterFunc(w.limit, func() {
		w.dead.Store(true)
		body.Close()
	})
	return w
}

// Read implements io.Reader.
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.body.Read(b)
	w.timer.Reset(w.limit)
	if err != nil && err != io.EOF && w.dead.Load() {
		err = fmt.Errorf("nothing came for %s", w.limit)
	}
	return n, err
}

func (w *watched) stop() { w.timer.Stop() }
