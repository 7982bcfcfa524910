package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Summary counts what a graph consists of and what a step costs.
type Summary struct {
	Graph   string    `json:"graph"`
	Dims    Dims      `json:"dims"`
	Values  int       `json:"values"`
	Layers  int       `json:"layers"` // one more than the highest layer
	Ops     []OpCount `json:"ops"`    // most multiply-adds first, then most bytes
	MACs    int       `json:"macs"`
	Bytes   int       `json:"bytes"` // read and written by all operations
	Weights int       `json:"weight_bytes"`
	Consts  int       `json:"const_bytes"`
	Caches  int       `json:"cache_bytes"`
	// Arena is the peak of the memory plan, 0 before memplan; Floor is the most
	// bytes alive in one step, which no plan can go below.
	Arena int `json:"arena_bytes"`
	Floor int `json:"floor_bytes"`
}

// OpCount is the share of one operation.
type OpCount struct {
	Op     string `json:"op"`
	Values int    `json:"values"`
	MACs   int    `json:"macs"`
	Bytes  int    `json:"bytes"`
}

// Summarize counts g under a binding of its named dimensions; nil is the
// binding of the memory plan. It fails when a dimension is not bound.
func Summarize(g *Graph, b Dims) (Summary, error) {
	if b == nil {
		b = g.Bound
	}
	s := Summary{Graph: g.Name, Dims: b, Values: len(g.Values), Arena: g.Arena}
	at := map[*Op]int{}
	alive := make([]int, len(g.Values)+2) // change of the bytes alive at a step
	for i, last := range lives(g) {
		v := g.Values[i]
		n, err := bytesUnder(v.Type, b)
		if err != nil {
			return Summary{}, fmt.Errorf("graph: summary of %s: %s = %s %s: %w", g.Name, v, v.Op.Name, v.Type, err)
		}
		switch {
		case v.Op == OpWeight:
			s.Weights += n
		case v.Op == OpConst:
			s.Consts += n
		case v.Op == OpCache:
			s.Caches += n
		case v.owns():
			alive[i] += n
			alive[last+1] -= n
		}
		k, ok := at[v.Op]
		if !ok {
			k = len(s.Ops)
			at[v.Op] = k
			s.Ops = append(s.Ops, OpCount{Op: v.Op.Name})
		}
		c := CostOf(v, b)
		s.Ops[k].Values++
		s.Ops[k].MACs += c.MACs
		s.Ops[k].Bytes += c.Bytes
		s.MACs += c.MACs
		s.Bytes += c.Bytes
		s.Layers = max(s.Layers, v.Layer+1)
	}
	sum := 0
	for _, d := range alive {
		sum += d
		s.Floor = max(s.Floor, sum)
	}
	slices.SortFunc(s.Ops, func(a, b OpCount) int {
		return cmp.Or(cmp.Compare(b.MACs, a.MACs), cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Op, b.Op))
	})
	return s, nil
}

// String returns a table for people.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d values, %d layers, %s\n", s.Graph, s.Values, s.Layers, s.Dims)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "op\tvalues\tmultiply-adds\tbytes\t\n")
	for _, o := range s.Ops {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", o.Op, o.Values, o.MACs, o.Bytes)
	}
	fmt.Fprintf(w, "total\t%d\t%d\t%d\t\n", s.Values, s.MACs, s.Bytes)
	w.Flush()
	fmt.Fprintf(&b, "weights %d bytes, caches %d, consts %d, arena %d (most alive in one step %d)\n", s.Weights, s.Caches, s.Consts, s.Arena, s.Floor)
	return b.String()
}
