package graph

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// maxLayer bounds Value.Layer; the deepest published models have 126 blocks.
const maxLayer = 1<<16 - 1

// flow is the graph as successor lists over positions in g.Values: an edge from
// each argument to its user, and an edge from each reader of a state to the
// value that overwrites it.
type flow struct {
	succ [][]int32
	need []int32 // number of edges into a position
}

// newFlow builds the edges. It fails when an argument is no value of g.
func newFlow(g *Graph) (*flow, error) {
	pos := make([]int32, g.nextID)
	for i, v := range g.Values {
		if v.ID < 0 || v.ID >= len(pos) {
			return nil, fmt.Errorf("graph: %s: id of %s is outside 0 to %d", g.Name, v, len(pos)-1)
		}
		pos[v.ID] = int32(i)
	}
	f := &flow{succ: make([][]int32, len(g.Values)), need: make([]int32, len(g.Values))}
	count := make([]int32, len(g.Values))
	edges := 0
	for i, v := range g.Values {
		for _, a := range v.Args {
			if a == nil || a.ID < 0 || a.ID >= len(pos) || g.Values[pos[a.ID]] != a {
				return nil, fmt.Errorf("graph: %s: argument %s of %s = %s is not in the graph", g.Name, a, v, v.Op.Name)
			}
			count[pos[a.ID]]++
			edges++
		}
		f.need[i] = int32(len(v.Args))
	}
	store := make([]int32, edges)
	for i, n := range count {
		f.succ[i], store = store[:0:n], store[n:]
	}
	for i, v := range g.Values {
		for _, a := range v.Args {
			f.succ[pos[a.ID]] = append(f.succ[pos[a.ID]], int32(i))
		}
	}
	var extra [][2]int32
	for i, v := range g.Values {
		if v.Op.Is(State) && len(v.Args) > 0 {
			for _, r := range f.readers(g, pos[v.Args[0].ID]) {
				if int(r) != i {
					extra = append(extra, [2]int32{r, int32(i)})
				}
			}
		}
	}
	for _, e := range extra {
		f.succ[e[0]] = append(f.succ[e[0]], e[1])
		f.need[e[1]]++
	}
	return f, nil
}

// readers returns the positions of the values that read the storage of the
// state at position at as it is before the next write: its users and the users
// of its views, writers left out. Only argument edges may be in f yet.
func (f *flow) readers(g *Graph, at int32) []int32 {
	var found []int32
	seen := map[int32]bool{}
	for todo := []int32{at}; len(todo) > 0; {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, u := range f.succ[p] {
			op := g.Values[u].Op
			if seen[u] || op.Is(State) && g.Values[u].Args[0] == g.Values[p] {
				continue
			}
			seen[u] = true
			found = append(found, u)
			if op.Is(View) && g.Values[u].Args[0] == g.Values[p] {
				todo = append(todo, u)
			}
		}
	}
	return found
}

// sorted reports whether every edge leads forward.
func (f *flow) sorted() bool {
	for i, succ := range f.succ {
		for _, u := range succ {
			if int(u) <= i {
				return false
			}
		}
	}
	return true
}

// walk returns positions in an order that respects all edges; pick chooses and
// removes one of the ready ones. The second result is false on a cycle.
func (f *flow) walk(push func(int32), pop func() (int32, bool)) ([]int32, bool) {
	need := slices.Clone(f.need)
	for i, n := range need {
		if n == 0 {
			push(int32(i))
		}
	}
	order := make([]int32, 0, len(need))
	for {
		i, ok := pop()
		if !ok {
			return order, len(order) == len(need)
		}
		order = append(order, i)
		for _, u := range f.succ[i] {
			if need[u]--; need[u] == 0 {
				push(u)
			}
		}
	}
}

// canonical returns the positions in the one order that depends on ids and
// edges alone: of the values that can come next the most urgent does. A value
// is as urgent as the lowest id among it and the values that wait for it, so
// that what the model's author wrote keeps its order and what a pass added
// comes right before its first user.
func (f *flow) canonical(g *Graph) ([]int32, error) {
	if f.sorted() && slices.IsSortedFunc(g.Values, func(a, b *Value) int { return a.ID - b.ID }) {
		// Users have higher ids than what they use: the order of ids is it.
		order := make([]int32, len(g.Values))
		for i := range order {
			order[i] = int32(i)
		}
		return order, nil
	}
	var queue []int32
	order, ok := f.walk(func(i int32) { queue = append(queue, i) }, func() (int32, bool) {
		if len(queue) == 0 {
			return 0, false
		}
		i := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		return i, true
	})
	if !ok {
		return nil, f.cycle(g, order)
	}
	urgency := make([]int, len(g.Values))
	for _, i := range slices.Backward(order) {
		urgency[i] = g.Values[i].ID
		for _, u := range f.succ[i] {
			urgency[i] = min(urgency[i], urgency[u])
		}
	}
	h := heap{less: func(a, b int32) bool {
		if urgency[a] != urgency[b] {
			return urgency[a] < urgency[b]
		}
		return g.Values[a].ID < g.Values[b].ID
	}}
	order, _ = f.walk(h.push, h.pop)
	return order, nil
}

// cycle names the first value that no order can place.
func (f *flow) cycle(g *Graph, placed []int32) error {
	done := make([]bool, len(g.Values))
	for _, i := range placed {
		done[i] = true
	}
	at := g.Values[slices.Index(done, false)]
	return fmt.Errorf("graph: %s: %s = %s waits for itself: a cycle, or a state read after it was overwritten", g.Name, at, at.Op.Name)
}

// Sort brings the values into their canonical order: every value after its
// arguments, every reader of a cache before the value that overwrites it, and
// otherwise by id. The order before does not matter. Passes append new values
// at the end and leave the rest to Sort, which the pipeline calls after each
// pass that left the graph out of order. A memory plan is dropped when the
// order changes.
func (g *Graph) Sort() error {
	f, err := newFlow(g)
	if err != nil {
		return err
	}
	order, err := f.canonical(g)
	if err != nil {
		return err
	}
	g.reorder(order)
	return nil
}

// sorted reports whether every argument is a value before its user, and every
// reader of a state before the value that overwrites it: what flow.sorted says,
// without the flow.
func (g *Graph) sorted() bool {
	const none = -1
	pos, over := make([]int32, g.nextID), make([]int32, g.nextID) // by id: place, place of what overwrites
	for i := range pos {
		pos[i], over[i] = none, none
	}
	for i, v := range g.Values {
		if v.ID < 0 || v.ID >= len(pos) {
			return false
		}
		for _, a := range v.Args {
			if a == nil || a.ID < 0 || a.ID >= len(pos) || pos[a.ID] == none || g.Values[pos[a.ID]] != a {
				return false
			}
			for a.Op.Is(View) && len(a.Args) > 0 {
				a = a.Args[0]
			}
			if over[a.ID] != none {
				return false // reads what was overwritten
			}
		}
		pos[v.ID] = int32(i)
		if v.Op.Is(State) && len(v.Args) > 0 {
			over[v.Args[0].ID] = int32(i)
		}
	}
	return true
}

// Canonical returns the values in their canonical order, which Sort brings them
// into, for passes that look at arguments before users. The slice is the
// caller's.
func (g *Graph) Canonical() ([]*Value, error) {
	f, err := newFlow(g)
	if err != nil {
		return nil, err
	}
	order, err := f.canonical(g)
	if err != nil {
		return nil, err
	}
	values := make([]*Value, len(order))
	for i, p := range order {
		values[i] = g.Values[p]
	}
	return values, nil
}

// Shuffle brings the values into a random valid order that depends on the seed
// and the order before. Passes must not mind; check mode and tests see to it.
func (g *Graph) Shuffle(seed uint64) error {
	f, err := newFlow(g)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	var ready []int32
	order, ok := f.walk(func(i int32) { ready = append(ready, i) }, func() (int32, bool) {
		if len(ready) == 0 {
			return 0, false
		}
		k, last := rnd.IntN(len(ready)), len(ready)-1
		ready[k], ready[last] = ready[last], ready[k]
		i := ready[last]
		ready = ready[:last]
		return i, true
	})
	if !ok {
		return f.cycle(g, order)
	}
	g.reorder(order)
	return nil
}

func (g *Graph) reorder(order []int32) {
	if slices.IsSorted(order) {
		return
	}
	g.dropPlan()
	values := make([]*Value, len(order))
	for i, p := range order {
		values[i] = g.Values[p]
	}
	g.Values = values
}

// dropPlan forgets a memory plan that the values no longer fit.
func (g *Graph) dropPlan() {
	g.Arena = 0
	for _, v := range g.Values {
		v.Mem = nil
	}
}

// heap is a binary heap of positions.
type heap struct {
	less func(a, b int32) bool
	at   []int32
}

func (h *heap) push(x int32) {
	h.at = append(h.at, x)
	for i := len(h.at) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(h.at[i], h.at[up]) {
			return
		}
		h.at[i], h.at[up] = h.at[up], h.at[i]
		i = up
	}
}

func (h *heap) pop() (int32, bool) {
	if len(h.at) == 0 {
		return 0, false
	}
	top, last := h.at[0], len(h.at)-1
	h.at[0] = h.at[last]
	h.at = h.at[:last]
	for i := 0; ; {
		k := 2*i + 1
		if k >= last {
			return top, true
		}
		if k+1 < last && h.less(h.at[k+1], h.at[k]) {
			k++
		}
		if !h.less(h.at[k], h.at[i]) {
			return top, true
		}
		h.at[i], h.at[k] = h.at[k], h.at[i]
		i = k
	}
}
