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
	want   string
}

// TestLoad is SV-10: many clients at once, a third of them leaving at a random
// moment, prompts and answers from one token to the whole window, some that do
// not fit. Each text is the one that the request gives alone, and nothing is left
// afterwards. GRAPHRUN_LOAD is how long it may take, such as 3m.
func TestLoad(t *testing.T) {
	limit, err := time.ParseDuration(os.Getenv("GRAPHRUN_LOAD"))
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
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()

	var next, done, left, refused, mixed, queueMost atomic.Int64
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	client := &http.Client{Transport: transport}
	healthEnds := make(chan struct{})
	go func() { // health never lies
		defer close(healthEnds)
		for ctx.Err() == nil && int(next.Load()) < requests {
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
				if n > requests || ctx.Err() != nil {
					return
				}
				job := jobs[rng.IntN(len(jobs))]
				leave, stream := rng.IntN(3) == 0, rng.IntN(2) == 0
				if n%10 == 0 {
					job = loadJob{prompt: strings.Repeat("long story ", m.Limits().Context), max: 5}
				}
				text, status, err := r.load(ctx, client, job, stream, leave, rng)
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
		done.Load(), clients, (limit - time.Until(deadline)).Round(time.Second), left.Load(), refused.Load(), mixed.Load(), queueMost.Load())
	if int(done.Load()) < requests {
		t.Errorf("only %d of %d requests in %s", done.Load(), requests, limit)
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
		job := loadJob{prompt: prompt, max: []int{1, 2, 7, 20, 60, window}[i%6]}
		if ids >= window {
			continue
		}
		s := m.NewSession()
		if err := s.Append(t.Context(), m.Encode(prompt)...); err != nil {
			t.Fatal(err)
		}
		for tok, err := range s.Generate(t.Context(), engine.GenerateOptions{MaxTokens: job.max}) {
			if err != nil {
				t.Fatal(err)
			}
			job.want += tok.Text
		}
		s.Close()
		jobs = append(jobs, job)
	}
	return jobs
}

// load sends one request and returns the text, as far as it came.
func (r *running) load(ctx context.Context, client *http.Client, job loadJob, stream, leave bool, rng *rand.Rand) (text string, status int, err error) {
	if leave {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(3000))*time.Millisecond)
		defer cancel()
	}
	b, _ := json.Marshal(job.prompt)
	body := fmt.Sprintf(`{"prompt":%s,"max_tokens":%d,"temperature":0,"stream":%v}`, b, job.max, stream)
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
	ended := false
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
	}
	if err := sc.Err(); err != nil {
		return text, 0, err
	}
	if !ended {
		return text, 0, io.ErrUnexpectedEOF
	}
	return text, resp.StatusCode, nil
}
