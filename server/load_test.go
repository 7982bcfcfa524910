package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"graphrun/engine"
	"graphrun/server/sched"
)

// loadJob is a request of the load test, with the text that it gives alone.
type loadJob struct {
	prompt string
	max    int
	whole  bool // goes on to max after the end of the story
	want   string
	tokens int // of want
}

// TestLoad is SV-10: many clients at once, a third of whose requests they leave at
// a random moment, prompts and answers from one token to the whole window, some
// that do not fit. Each text is the one that the request gives alone, and nothing
// is left afterwards. GRAPHRUN_LOAD is how long it lasts, such as 3m; it goes on
// until GRAPHRUN_LOAD_REQUESTS, 5000, are done.
func TestLoad(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("GRAPHRUN_LOAD"))
	if err != nil {
		t.Skip("set GRAPHRUN_LOAD=3m to run it")
	}
	clients, requests := 200, 5000
	if v := os.Getenv("GRAPHRUN_LOAD_REQUESTS"); v != "" {
		if requests, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
		clients = min(clients, requests)
	}
	m, err := engine.Open(filepath.Join("..", "testdata", "stories.gguf"), engine.Options{MaxSeqs: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := startModel(t, m, sched.Options{CachePages: -1, MaxQueue: 256}, func(o *Options) { o.Stall = 20 * time.Second })
	jobs := loadJobs(t, m)
	before, heapBefore := runtime.NumGoroutine(), heap()
	begin := time.Now()
	limit := 4*lasts + time.Minute // on a busy machine
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	enough := func(n int) bool { return n > requests && time.Since(begin) >= lasts }

	var usual atomic.Int64 // nanoseconds that an answer takes now
	usual.Store(int64(100 * time.Millisecond))
	var next, done, left, refused, mixed, queueMost atomic.Int64
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	client := &http.Client{Transport: transport}
	healthEnds := make(chan struct{})
	go func() { // health never lies
		defer close(healthEnds)
		for ctx.Err() == nil && !enough(int(next.Load())) {
			st := r.s.Status()
			queueMost.Store(max(queueMost.Load(), int64(st.Queued)))
			if st.Status != "ok" {
				t.Errorf("health is %+v", st)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 1))
			for {
				n := int(next.Add(1))
				if enough(n) || ctx.Err() != nil {
					return
				}
				job := jobs[rng.IntN(len(jobs))]
				// Not everybody who means to leave does before the answer is there.
				leave, stream := 3*left.Load() < int64(n), rng.IntN(2) == 0
				if n%10 == 0 {
					job = loadJob{prompt: strings.Repeat("long story ", m.Limits().Context), max: 5}
				}
				start := time.Now()
				after := leaving{}
				if leave {
					after = leaving{time: time.Duration(rng.Int64N(usual.Load()) + 1), pieces: rng.IntN(job.tokens + 1)}
					if stream && rng.IntN(2) == 0 {
						after.time = limit // by what has come
					}
				}
				text, status, err := r.load(ctx, client, job, stream, after)
				if err == nil && status == http.StatusOK {
					usual.Store((7*usual.Load() + int64(time.Since(start))) / 8)
				}
				switch {
				case leave && (err != nil || status == 0):
					left.Add(1)
					if !strings.HasPrefix(job.want, text) {
						mixed.Add(1)
						t.Errorf("request %d, which left: %q is not the beginning of %q", n, text, job.want)
					}
				case ctx.Err() != nil:
				case err != nil:
					t.Errorf("request %d: %v", n, err)
				case n%10 == 0:
					if status != http.StatusBadRequest {
						t.Errorf("request %d does not fit and is answered with %d", n, status)
					}
				case status == http.StatusTooManyRequests:
					refused.Add(1)
				case status != http.StatusOK || text != job.want:
					mixed.Add(1)
					t.Errorf("request %d (prompt %.40q, %d tokens): status %d, text\n got %q\nwant %q", n, job.prompt, job.max, status, text, job.want)
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	cancel()
	<-healthEnds
	transport.CloseIdleConnections()
	t.Logf("%d requests by %d clients in %s: %d left, %d found the queue full, %d with a wrong text, at most %d queued",
		done.Load(), clients, time.Since(begin).Round(time.Second), left.Load(), refused.Load(), mixed.Load(), queueMost.Load())
	if int(done.Load()) < requests {
		t.Errorf("only %d of %d requests in %s", done.Load(), requests, limit)
	}
	if n := left.Load(); 10*n < 3*done.Load() {
		t.Errorf("only %d of %d requests were left, want about a third", n, done.Load())
	}
	if queueMost.Load() > 256 {
		t.Errorf("%d requests were queued, more than 256", queueMost.Load())
	}
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		st, n := r.sched.Stats(), runtime.NumGoroutine()
		if st.Queued+st.Running == 0 && n <= before+5 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("afterwards %d queued, %d running, %d goroutines where there were %d", st.Queued, st.Running, n, before)
		}
	}
	if n := heap(); n > heapBefore+32<<20 {
		t.Errorf("the heap has grown from %d to %d MiB", heapBefore>>20, n>>20)
	}
	st := r.sched.Stats()
	if pages := st.Full.Used - st.CachedPages; pages > 0 && st.Window.Total == 0 {
		t.Errorf("%d pages of the KV cache are in use by nobody (%+v)", pages, st)
	}
}

// heap returns the bytes of live objects.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// loadJobs makes requests of all sizes and computes what each gives alone.
func loadJobs(t *testing.T, m *engine.Model) (jobs []loadJob) {
	t.Helper()
	story := "Once upon a time there was a little dog who liked to play in the park with a red ball. One day "
	window := m.Limits().Context
	for i := range 24 {
		prompt := strings.Repeat(story, 1+i%5)[:1+(i*37)%(len(story)*(1+i%5))]
		ids := len(m.Encode(prompt))
		if ids >= window {
			continue
		}
		job := loadJob{prompt: prompt, max: []int{1, 2, 7, 20, 60, window - ids}[i%6]}
		job.whole = job.max == window-ids
		s := m.NewSession()
		if err := s.Append(t.Context(), m.Encode(prompt)...); err != nil {
			t.Fatal(err)
		}
		for tok, err := range s.Generate(t.Context(), engine.GenerateOptions{MaxTokens: job.max, IgnoreEOG: job.whole}) {
			if err != nil {
				t.Fatal(err)
			}
			job.want += tok.Text
			job.tokens++
		}
		s.Close()
		jobs = append(jobs, job)
	}
	return jobs
}

// leaving says when a client leaves: after a time, or when so many pieces of a
// stream have come. The zero value stays.
type leaving struct {
	time   time.Duration
	pieces int
}

// load sends one request and returns the text, as far as it came.
func (r *running) load(ctx context.Context, client *http.Client, job loadJob, stream bool, after leaving) (text string, status int, err error) {
	if after.time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, after.time)
		defer cancel()
	}
	b, _ := json.Marshal(job.prompt)
	body := fmt.Sprintf(`{"prompt":%s,"max_tokens":%d,"temperature":0,"ignore_eos":%v,"stream":%v}`, b, job.max, job.whole, stream)
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, err := io.Copy(io.Discard, resp.Body)
		return "", resp.StatusCode, err
	}
	if !stream {
		var x completion
		if err := json.NewDecoder(resp.Body).Decode(&x); err != nil {
			return "", 0, err
		}
		return x.Choices[0].Text, resp.StatusCode, nil
	}
	ended, pieces := false, 0
	sc := bufio.NewScanner(resp.Body)
	for sc.Scan() {
		d, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		if d == "[DONE]" {
			ended = true
			continue
		}
		var x completion
		if err := json.Unmarshal([]byte(d), &x); err != nil {
			return text, 0, err
		}
		for _, c := range x.Choices {
			text += c.Text
		}
		if pieces++; after.time > 0 && pieces > after.pieces {
			return text, 0, nil // closing the body tells the server
		}
	}
	if err := sc.Err(); err != nil {
		return text, 0, err
	}
	if !ended {
		return text, 0, io.ErrUnexpectedEOF
	}
	return text, resp.StatusCode, nil
}
