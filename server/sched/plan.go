package sched

import (
	"slices"

	"graphrun/engine"
)

// admit moves requests from the queue into work while there is room for them.
func (s *Scheduler) admit() {
	for len(s.evicted) > 0 && len(s.running) < s.o.MaxRunning {
		if !s.start(s.evicted[0]) {
			break
		}
		s.evicted = slices.Delete(s.evicted, 0, 1)
	}
	for s.next() {
	}
}

// next admits the next request that can be, and reports whether there was one.
func (s *Scheduler) next() (found bool) {
	full := len(s.running) >= s.o.MaxRunning || len(s.evicted) > 0
	s.queue.each(func(r *request) bool {
		switch {
		case r.embedding != nil:
			if len(s.embeds) > 0 {
				return true
			}
			s.queue.remove(r)
			s.embeds = append(s.embeds, r)
			s.admitted(r)
			found = true
		case full || s.waits(r):
			return true
		case s.start(r):
			found = true
		default:
			// It waits for pages, and nobody who came later gets them first.
			full = true
			return true
		}
		return !found
	})
	return found
}

// worthWaiting is how many tokens a prompt must save to wait for another's.
const worthWaiting = 16

// waits reports whether r had better wait, because a running prompt that begins
// like it is about to be in the prefix cache.
func (s *Scheduler) waits(r *request) bool {
	if s.prefix == nil || r.PromptLogprobs {
		return false
	}
	for _, p := range s.running {
		if p.err != nil || p.Partition != r.Partition || p.left() == 0 {
			continue
		}
		same := min(common(p.text, r.text), len(r.text)-1)
		if p.seq.Len() >= min(pages(same)*engine.PageSize, len(p.text)) {
			continue // it is there already
		}
		if _, n := s.prefix.match(r.Partition, r.text, len(r.text)-1); same-n >= worthWaiting {
			p.twins++
			return true
		}
	}
	return false
}

// start gives a request its sequence if there are pages for all that is to be
// computed, beside those that the running ones are going to need.
func (s *Scheduler) start(r *request) bool {
	limit := len(r.text) - 1
	if r.PromptLogprobs && r.scores < len(r.Prompt) {
		limit = max(0, r.scores-1) // the logits of all others are wanted
	}
	held, n := s.prefix.match(r.Partition, r.text, limit)
	r.seq = s.cache.NewSequence()
	if n > 0 {
		seq, err := s.cache.Adopt(held, n)
		if err != nil {
			s.log.Error("the prefix cache is at fault", "error", err)
			n = 0
		} else {
			r.seq = seq
		}
	}
	if !s.affords(r) {
		r.seq.Drop()
		r.seq = nil
		return false
	}
	if r.state == waiting {
		s.queue.remove(r)
		s.admitted(r)
		r.order = r.number
		r.part.served += uint64(len(r.text)-n) * promptCost
		s.counts.PromptTokens += uint64(len(r.Prompt))
		s.counts.CachedTokens += uint64(n)
		if n > 0 {
			s.counts.PrefixHits++
		} else {
			s.counts.PrefixMisses++
		}
		r.stream.update(func(o *Result) { o.CachedTokens = n })
	}
	r.state = running
	at, _ := slices.BinarySearchFunc(s.running, r, func(a, b *request) int { return int(int64(a.order) - int64(b.order)) })
	s.running = slices.Insert(s.running, at, r)
	s.log.Debug("request starts", "id", r.ID, "prompt", len(r.Prompt), "cached", n)
	return true
}

// admitted notes that a request has left the queue.
func (s *Scheduler) admitted(r *request) {
	r.state = running
	r.part.running++
	r.stream.update(func(o *Result) { o.Start = now() })
}

// affords reports whether r's text fits beside what the running ones need.
func (s *Scheduler) affords(r *request) bool {
	if len(s.running) == 0 {
		return true // alone everything fits
	}
	full, window := s.needs(r, r.left()+1)
	for _, o := range s.running {
		f, w := s.needs(o, o.left()+engine.PageSize)
		full, window = full+f, window+w
	}
	haveFull, haveWindow := s.cache.Free()
	if haveFull >= full && haveWindow >= window {
		return true
	}
	spareFull, spareWindow := s.prefix.spare()
	return haveFull+spareFull >= full && haveWindow+spareWindow >= window
}

// needs counts the pages r takes for n tokens more.
func (s *Scheduler) needs(r *request, n int) (full, window int) {
	return r.seq.Need(min(n, s.cache.Size().Context-r.seq.Len()))
}

// plan fills the next step, and makes room for it: the prefix cache goes first,
// then whoever came last. It returns an embedding whose turn it is.
func (s *Scheduler) plan() (embed *request) {
	for {
		embed = s.fill()
		if len(s.items) == 0 || s.fits() {
			return embed
		}
		if len(s.running) == 1 {
			s.prefix.clear()
			return embed
		}
		s.preempt(s.running[len(s.running)-1])
	}
}

// preempt takes a running request back to the head of the queue. Its answer
// stays; its text is computed again when there is room, if the prefix cache has
// lost it by then.
func (s *Scheduler) preempt(r *request) {
	s.keep(r)
	s.drop(r)
	s.running = slices.DeleteFunc(s.running, func(o *request) bool { return o == r })
	r.state, r.chunk = preempted, 0
	at, _ := slices.BinarySearchFunc(s.evicted, r, func(a, b *request) int { return int(int64(a.order) - int64(b.order)) })
	s.evicted = slices.Insert(s.evicted, at, r)
	s.counts.Preempted++
	r.stream.update(func(o *Result) { o.Preempted++ })
	s.log.Info("request makes room for older ones", "id", r.ID, "tokens", len(r.text))
}

// room makes so many pages free, of those that only the prefix cache holds.
func (s *Scheduler) room(full, window int) bool {
	haveFull, haveWindow := s.cache.Free()
	return haveFull >= full && haveWindow >= window || s.prefix != nil && s.prefix.room(full, window)
}

// fits makes room for the step, and reports whether it could.
func (s *Scheduler) fits() bool {
	need := func() (full, window int) {
		for _, r := range s.step {
			f, w := r.seq.Need(r.chunk)
			full, window = full+f, window+w
		}
		return full, window
	}
	full, window := need()
	if s.room(full, window) {
		return true
	}
	for _, r := range s.step {
		s.prefix.yield(r.Partition, r.text, r.seq, r.chunk)
	}
	full, window = need()
	return s.room(full, window)
}

// fill plans the items of a step: a token for each answer that is being written,
// and what is left of the step, or of a chunk, for prompts. Half of that goes to
// the oldest prompt, the rest to the shortest ones, so that neither a long one
// nor many short ones hold up the others. Prompts and embeddings take turns.
func (s *Scheduler) fill() (embed *request) {
	s.items, s.step = s.items[:0], s.step[:0]
	var prompts []*request
	for _, r := range s.running {
		r.chunk = 0
		if r.prompting() {
			prompts = append(prompts, r)
		} else {
			s.add(r, 1, engine.RowsLast)
		}
	}
	l := s.m.Limits()
	budget := l.Step - len(s.items)
	if len(s.items) > 0 {
		budget = min(budget, s.o.Chunk)
	}
	if len(s.embeds) > 0 {
		s.embedTo = !s.embedTo || len(prompts) == 0
		if s.embedTo {
			return s.embeds[0]
		}
	}
	if len(prompts) == 0 || budget == 0 {
		return nil
	}
	rows := l.Rows - len(s.running) // beside one for each
	give := func(r *request, n int) {
		n = min(n, budget, r.left()-r.chunk)
		if r.scoring() {
			n = min(n, len(r.Prompt)-r.seq.Len()-r.chunk, rows+1-min(r.chunk, 1))
			rows -= max(0, n-1+min(r.chunk, 1))
		}
		r.chunk += n
		budget -= n
	}
	oldest := prompts[0]
	give(oldest, (budget+1)/2)
	others := slices.Clone(prompts[1:])
	slices.SortStableFunc(others, func(a, b *request) int { return a.left() - b.left() })
	for _, r := range others {
		give(r, budget)
	}
	give(oldest, budget)
	for _, r := range prompts {
		if r.chunk == 0 {
			continue
		}
		rows := engine.RowsNone
		switch {
		case r.scoring():
			rows = engine.RowsAll
		case r.chunk == r.left():
			rows = engine.RowsLast
		}
		s.add(r, r.chunk, rows)
	}
	return nil
}

// scoring reports whether logits of the prompt's tokens are still wanted.
func (r *request) scoring() bool { return r.PromptLogprobs && r.scores < len(r.Prompt) }

// add puts the next n tokens of r into the step.
func (s *Scheduler) add(r *request, n int, rows engine.Rows) {
	at := r.seq.Len()
	r.chunk = n
	s.items = append(s.items, engine.Item{Seq: r.seq, Tokens: r.text[at : at+n], Rows: rows})
	s.step = append(s.step, r)
}
