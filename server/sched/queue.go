package sched

import (
	"math"
	"slices"
)

// What a token of a prompt and of an answer cost a partition. An answer's token
// is dearer: it takes a row of every step, a prompt's shares one with others.
const (
	promptCost = 1
	answerCost = 2
)

// partition is what one client, or group of clients, has in the scheduler.
type partition struct {
	name    string
	waiting []*request // in the order they came
	running int
	served  uint64 // cost of what was computed for it
}

func (p *partition) active() bool { return p.running > 0 || len(p.waiting) > 0 }

// queue keeps the requests that wait. The partition that got least is next, and
// within it who came first: "virtual token counters" of Sheng and others,
// Fairness in Serving Large Language Models, 2024. A partition that had nothing
// to do does not save up turns.
type queue struct {
	max   int
	n     int
	parts map[string]*partition
	order []*partition // all of parts, in the order they appeared
}

func (q *queue) init(max int) { q.max, q.parts = max, make(map[string]*partition) }

// partition returns the named partition, raised to the others when it comes back
// to life.
func (q *queue) partition(name string) *partition {
	p := q.parts[name]
	if p == nil {
		p = &partition{name: name}
		q.parts[name] = p
		q.order = append(q.order, p)
	}
	if !p.active() {
		least := uint64(math.MaxUint64)
		for _, o := range q.order {
			if o.active() {
				least = min(least, o.served)
			}
		}
		if least != math.MaxUint64 {
			p.served = max(p.served, least)
		}
	}
	return p
}

// push puts r at the end of its partition. In a full queue the newest request
// of the partition with most has to leave, if that has more than r's would have;
// else r is refused.
func (q *queue) push(r *request) (leaves *request, err error) {
	p := q.partition(r.Partition)
	if q.n >= q.max {
		long := p
		for _, o := range q.order {
			if len(o.waiting) > len(long.waiting) {
				long = o
			}
		}
		if len(long.waiting) <= len(p.waiting)+1 {
			q.tidy()
			return nil, &QueueFullError{Queued: q.n, Max: q.max}
		}
		leaves = long.waiting[len(long.waiting)-1]
		q.remove(leaves)
	}
	r.part = p
	p.waiting = append(p.waiting, r)
	q.n++
	return leaves, nil
}

// remove takes r out of the queue.
func (q *queue) remove(r *request) {
	k := slices.Index(r.part.waiting, r)
	r.part.waiting = slices.Delete(r.part.waiting, k, k+1)
	q.n--
}

// each calls f with the requests in the order they are to be served until it
// returns false. f may remove the request it is called with, and then must
// return false.
func (q *queue) each(f func(r *request) bool) {
	var parts []*partition
	for _, p := range q.order {
		if len(p.waiting) > 0 {
			parts = append(parts, p)
		}
	}
	slices.SortStableFunc(parts, func(a, b *partition) int {
		switch {
		case a.served < b.served:
			return -1
		case a.served > b.served:
			return 1
		}
		return int(int64(a.waiting[0].number) - int64(b.waiting[0].number))
	})
	for _, p := range parts {
		for _, r := range p.waiting {
			if !f(r) {
				return
			}
		}
	}
}

// tidy forgets partitions when none has anything to do.
func (q *queue) tidy() {
	for _, p := range q.order {
		if p.active() {
			return
		}
	}
	clear(q.parts)
	q.order = q.order[:0]
}
