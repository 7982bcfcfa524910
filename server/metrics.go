package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what GET /metrics shows.
type metrics struct {
	s        *Server
	handler  http.Handler
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	first    prometheus.Histogram
	each     prometheus.Histogram
	promptN  prometheus.Histogram
	outputN  prometheus.Histogram
}

func newMetrics(s *Server) *metrics {
	m := &metrics{s: s}
	reg := prometheus.NewRegistry()
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "graphrun_http_requests_total", Help: "Requests that were answered, by path and status."}, []string{"path", "status"})
	m.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "graphrun_http_request_seconds", Help: "Time from the header of a request to the end of its answer.",
		Buckets: []float64{.005, .025, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}}, []string{"path"})
	m.first = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "graphrun_time_to_first_token_seconds", Help: "Time from submitting a request to its first token.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}})
	m.each = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "graphrun_time_per_token_seconds", Help: "Mean time between the tokens of an answer.",
		Buckets: []float64{.002, .005, .01, .02, .03, .05, .075, .1, .2, .5, 1, 2}})
	sizes := prometheus.ExponentialBuckets(1, 4, 10)
	m.promptN = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "graphrun_request_prompt_tokens", Help: "Tokens of the prompts of requests.", Buckets: sizes})
	m.outputN = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "graphrun_request_generated_tokens", Help: "Tokens of the answers to requests.", Buckets: sizes})
	reg.MustRegister(m.requests, m.took, m.first, m.each, m.promptN, m.outputN, m,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	return m
}

// serve answers GET /metrics.
func (m *metrics) serve(w http.ResponseWriter, r *http.Request, _ *client) error {
	m.handler.ServeHTTP(w, r)
	return nil
}

func (m *metrics) request(path string, status int, took time.Duration) {
	m.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
	m.took.WithLabelValues(path).Observe(took.Seconds())
}

var (
	descStatus    = prometheus.NewDesc("graphrun_status", "1 for what /health says, 0 for the others.", []string{"status"}, nil)
	descLoaded    = prometheus.NewDesc("graphrun_loaded_ratio", "Part of the model that is loaded.", nil, nil)
	descQueued    = prometheus.NewDesc("graphrun_requests_queued", "Requests that wait.", nil, nil)
	descRunning   = prometheus.NewDesc("graphrun_requests_running", "Requests in work.", nil, nil)
	descEnded     = prometheus.NewDesc("graphrun_requests_ended_total", "Requests of the scheduler that ended, by how.", []string{"how"}, nil)
	descPreempted = prometheus.NewDesc("graphrun_preemptions_total", "Times that an answer made room for older ones and was computed again.", nil, nil)
	descSteps     = prometheus.NewDesc("graphrun_steps_total", "Steps of the model.", nil, nil)
	descPrompt    = prometheus.NewDesc("graphrun_prompt_tokens_total", "Tokens of prompts, cached ones included.", nil, nil)
	descCached    = prometheus.NewDesc("graphrun_prompt_tokens_cached_total", "Tokens of prompts that the prefix cache had.", nil, nil)
	descGenerated = prometheus.NewDesc("graphrun_generated_tokens_total", "Tokens of answers.", nil, nil)
	descHits      = prometheus.NewDesc("graphrun_prefix_cache_hits_total", "Requests that found something in the prefix cache.", nil, nil)
	descMisses    = prometheus.NewDesc("graphrun_prefix_cache_misses_total", "Requests that found nothing in the prefix cache.", nil, nil)
	descEvicted   = prometheus.NewDesc("graphrun_prefix_cache_evicted_pages_total", "Pages that left the prefix cache to make room.", nil, nil)
	descPages     = prometheus.NewDesc("graphrun_kv_pages", "Pages of the KV cache there are, by the kind of layers.", []string{"layers"}, nil)
	descUsed      = prometheus.NewDesc("graphrun_kv_pages_used", "Pages of the KV cache in use, by the kind of layers.", []string{"layers"}, nil)
	descKept      = prometheus.NewDesc("graphrun_prefix_cache_pages", "Pages that the prefix cache keeps.", nil, nil)
	descProgress  = prometheus.NewDesc("graphrun_seconds_without_progress", "How long nothing has moved while there is work; 0 without work.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descStatus, descLoaded, descQueued, descRunning, descEnded, descPreempted, descSteps, descPrompt, descCached,
		descGenerated, descHits, descMisses, descEvicted, descPages, descUsed, descKept, descProgress} {
		c <- d
	}
}

// Collect implements prometheus.Collector: what the scheduler says at this
// moment.
func (m *metrics) Collect(c chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	st := m.s.Status()
	for _, name := range []string{"ok", "loading", "draining", "stalled", "changed"} {
		v := 0.0
		if st.Status == name {
			v = 1
		}
		gauge(descStatus, v, name)
	}
	gauge(descLoaded, st.Loaded)
	gauge(descQueued, float64(st.Queued))
	gauge(descRunning, float64(st.Running))
	gauge(descProgress, st.Idle)
	m.s.mu.Lock()
	x := m.s.model
	m.s.mu.Unlock()
	if x == nil {
		return
	}
	t := x.sched.Stats()
	for how, n := range map[string]uint64{"finished": t.Finished, "cancelled": t.Cancelled, "failed": t.Failed, "refused": t.Refused} {
		count(descEnded, n, how)
	}
	count(descPreempted, t.Preempted)
	count(descSteps, t.Steps)
	count(descPrompt, t.PromptTokens)
	count(descCached, t.CachedTokens)
	count(descGenerated, t.GeneratedTokens)
	count(descHits, t.PrefixHits)
	count(descMisses, t.PrefixMisses)
	count(descEvicted, t.PrefixEvicted)
	gauge(descPages, float64(t.Full.Total), "full")
	gauge(descUsed, float64(t.Full.Used), "full")
	gauge(descPages, float64(t.Window.Total), "window")
	gauge(descUsed, float64(t.Window.Used), "window")
	gauge(descKept, float64(t.CachedPages))
}

// account notes what an answer has cost, however it ended.
func (s *Server) account(who *client, p *plan, list []*choice) {
	if len(list) == 0 {
		return
	}
	for _, c := range list {
		r := c.st.Result()
		who.prompt += r.PromptTokens
		who.cached += r.CachedTokens
		who.output += c.tokens
		if !r.First.IsZero() {
			s.metrics.first.Observe(r.First.Sub(r.Queued).Seconds())
		}
	}
	first, each := times(list)
	if !first.IsZero() {
		who.first = first.Sub(list[0].st.Result().Queued)
	}
	if each > 0 {
		s.metrics.each.Observe(each.Seconds())
	}
	s.metrics.promptN.Observe(float64(who.prompt))
	s.metrics.outputN.Observe(float64(who.output))
}
