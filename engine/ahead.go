package engine

import (
	"sync/atomic"

	"graphrun/graph"
)

// Pages of a mapped file are found one fault after the other when the first step
// reads the weights, which takes ten times as long as the step. A goroutine
// enters them into the table of pages while the model is compiled, in the order of
// the graph.

// aheadFrom is the size of the weights from which that is worth a goroutine. Tests
// set it.
var aheadFrom = 32 << 20

// aheadPiece is what is asked for at a time: some milliseconds.
const aheadPiece = 16 << 20

// pager maps pages ahead until it is stopped.
type pager struct {
	stop atomic.Bool
	done chan struct{}
}

// readWhole returns the weights of which every step reads all, in the order of the
// graph: neither tables, of which it reads the rows of its tokens, nor experts, of
// which it reads those that are chosen.
func readWhole(g *graph.Graph) []*graph.Value {
	var list []*graph.Value
	seen := map[*graph.Value]bool{}
	for _, v := range g.Values {
		if v.Op.Name == "embed" || v.Op.Name == "expertmatmul" {
			continue
		}
		for _, a := range v.Args {
			if a.Op == graph.OpWeight && !seen[a] {
				seen[a] = true
				list = append(list, a)
			}
		}
	}
	return list
}

// mapAhead starts a pager for the weights of g. A model that the machine cannot
// hold gets none, and neither does one that is not mapped.
func (m *Model) mapAhead(g *graph.Graph) {
	if m.File == nil || m.o.Overcommit || m.o.Read {
		return
	}
	list, bytes := readWhole(g), 0
	for _, v := range list {
		bytes += v.Type.Bytes(nil)
	}
	if have, _ := available(); bytes < aheadFrom || have != 0 && bytes > have {
		return
	}
	// Compiling makes tensors that no file holds; what is mapped is known now.
	var mapped [][]byte
	for _, v := range list {
		if t, ok := m.File.Tensor(v.Name); ok {
			mapped = append(mapped, t.Data)
		}
	}
	p := &pager{done: make(chan struct{})}
	m.pager = p
	go func() {
		defer close(p.done)
		for _, b := range mapped {
			for ; len(b) > 0; b = b[min(aheadPiece, len(b)):] {
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
