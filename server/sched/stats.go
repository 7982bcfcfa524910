package sched

import (
	"time"

	"graphrun/engine"
)

// Counts are totals since the start.
type Counts struct {
	Finished  uint64 // requests that ended by themselves
	Cancelled uint64 // requests whose client left
	Failed    uint64 // requests that ended with an error
	Refused   uint64 // requests that found the queue full
	Preempted uint64 // times that an answer had to make room
	Steps     uint64

	PromptTokens    uint64 // of prompts that were begun, cached ones included
	CachedTokens    uint64 // of these, found in the prefix cache
	GeneratedTokens uint64
	PrefixHits      uint64 // requests that found something in the prefix cache
	PrefixMisses    uint64
	PrefixEvicted   uint64 // pages that left the prefix cache to make room
}

// Stats is what a scheduler has and has done.
type Stats struct {
	Counts

	Queued   int // requests that wait, those that made room included
	Running  int // requests in work
	Draining bool

	Full, Window engine.PoolUse // pages of the KV cache, in full and in windowed layers
	CachedPages  int            // pages of tokens in the prefix cache
	// LastProgress is when the last step ended, or when the first request came
	// after a rest.
	LastProgress time.Time
}

// Stats returns counts that belong to one moment.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := Stats{Counts: s.counts, Queued: s.queue.n + len(s.evicted), Running: len(s.running) + len(s.embeds),
		Draining: s.draining, CachedPages: s.prefix.len(), LastProgress: s.progress}
	if s.prefix != nil {
		t.PrefixEvicted = s.prefix.evicted
	}
	t.Full, t.Window = s.cache.Use()
	return t
}

// Stuck reports whether there is work and nothing has moved for longer than
// limit, which must be well above what a step takes.
func (t Stats) Stuck(now time.Time, limit time.Duration) bool {
	return t.Queued+t.Running > 0 && now.Sub(t.LastProgress) > limit
}
