package engine

import (
	"sync/atomic"

	"graphrun/graph"
)

// Pages of a mapped file are found one fault after the other when the first step
// reads the weights, which takes ten times as long as the step. A goroutine
// enters them into the table of pages while the model is compiled, in the order of
// the graph.

const (
	// aheadFrom is the size of the weights from which that is worth a goroutine.
	aheadFrom = 32 << 20
	// aheadPiece is what is asked for at a time: some milliseconds.
	aheadPiece = 16 << 20
)

// pager maps pages ahead until it is stopped.
type pager struct {
	stop atomic.Bool
	done chan struct{}
}

// mapAhead starts a pager for the weights of g. A model that the machine cannot
// hold gets none, and neither does one that is not mapped.
func (m *Model) mapAhead(g *graph.Graph) {
	if m.File == nil || m.o.Overcommit || m.o.Read {
		return
	}
	bytes := 0
	for _, v := range g.Values {
		if v.Op == graph.OpWeight {
			bytes += v.Type.Bytes(nil)
		}
	}
	if have, _ := available(); bytes < aheadFrom || have != 0 && bytes > have {
		return
	}
	p := &pager{done: make(chan struct{})}
	m.pager = p
	go func() {
		defer close(p.done)
		for _, v := range g.Values {
			if v.Op != graph.OpWeight || len(v.Type.Shape) < 2 {
				continue
			}
			t, ok := m.File.Tensor(v.Name)
			if !ok {
				continue
			}
			for b := t.Data; len(b) > 0; b = b[min(aheadPiece, len(b)):] {
				if p.stop.Load() || !mapPages(b[:min(aheadPiece, len(b))]) {
					return
				}
			}
		}
	}()
}

// end stops the pager and waits for it.
func (p *pager) end() {
	if p != nil {
		p.stop.Store(true)
		<-p.done
	}
}
