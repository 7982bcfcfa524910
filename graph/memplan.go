package graph

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// arenaAlign is the alignment of every place in the arena: a cache line, so
// that two values never share one and vector loads of rows start aligned.
const arenaAlign = 64

// MemPlan gives every value that owns memory a place in one arena, so that
// values alive in the same step share no byte. g.Bound says how large the named
// dimensions can get; set it before.
//
// Steps are positions in g.Values. A value lives from its own step to the last
// step that reads it or a view of it; an output lives one step longer than the
// graph. Leaves, views and states own no memory: they are outside the arena or
// inside argument 0. The result of a step never lies where one of its arguments
// does. A program that runs steps side by side must treat the reuse of a place
// as a dependency.
//
// Places are found from the largest value to the smallest: the lowest gap that
// fits best among the values placed already and alive at the same time.
func MemPlan(g *Graph) error {
	g.dropPlan()
	life := lives(g)
	var own []*Value
	for i, v := range g.Values {
		if !v.owns() {
			continue
		}
		size, err := bytesUnder(v.Type, g.Bound)
		if err != nil {
			g.dropPlan()
			return fmt.Errorf("graph: %s: memory for %s = %s %s: %w", g.Name, v, v.Op.Name, v.Type, err)
		}
		v.Mem = &Mem{Size: size, First: i, Last: life[i]}
		own = append(own, v)
	}
	slices.SortStableFunc(own, func(a, b *Value) int {
		return cmp.Or(cmp.Compare(b.Mem.Size, a.Mem.Size), cmp.Compare(a.Mem.First, b.Mem.First))
	})
	placed := newLifeIndex(g, own)
	for k, v := range own {
		m := v.Mem
		m.Offset = bestGap(placed.alive(own, k), m.Size)
		if g.Arena = max(g.Arena, m.Offset+alignUp(m.Size)); g.Arena > maxSize {
			g.dropPlan()
			return fmt.Errorf("graph: %s: the arena is larger than %d bytes", g.Name, maxSize)
		}
		placed.add(m, k)
	}
	return nil
}

// lifeIndex lists for each step the values placed so far that are alive in it,
// as positions in a list of values, in one piece of memory.
type lifeIndex struct {
	start []int32 // of the list of a step in list
	fill  []int32 // end of what is filled of it
	list  []int32
	mark  []int32
	busy  []*Mem
}

func newLifeIndex(g *Graph, own []*Value) *lifeIndex {
	steps := len(g.Values) + 1
	x := &lifeIndex{start: make([]int32, steps+1), fill: make([]int32, steps), mark: make([]int32, len(own))}
	change := make([]int32, steps+1)
	for _, v := range own {
		change[v.Mem.First]++
		change[v.Mem.Last+1]--
	}
	alive := int32(0)
	for s := range steps {
		alive += change[s]
		x.fill[s] = x.start[s]
		x.start[s+1] = x.start[s] + alive
	}
	x.list = make([]int32, x.start[steps])
	return x
}

// alive returns the placed values that share a step with value k, each once.
func (x *lifeIndex) alive(own []*Value, k int) []*Mem {
	x.busy = x.busy[:0]
	for s := own[k].Mem.First; s <= own[k].Mem.Last; s++ {
		for _, o := range x.list[x.start[s]:x.fill[s]] {
			if x.mark[o] != int32(k+1) {
				x.mark[o] = int32(k + 1)
				x.busy = append(x.busy, own[o].Mem)
			}
		}
	}
	return x.busy
}

func (x *lifeIndex) add(m *Mem, k int) {
	for s := m.First; s <= m.Last; s++ {
		x.list[x.fill[s]] = int32(k)
		x.fill[s]++
	}
}

// bestGap returns the offset of the smallest gap between the busy places that
// holds size bytes, the end of the last one when no gap does.
func bestGap(busy []*Mem, size int) int {
	slices.SortFunc(busy, func(a, b *Mem) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size), cmp.Compare(a.First, b.First))
	})
	best, bestLen, end := -1, 0, 0
	for _, o := range busy {
		if gap := o.Offset - end; gap >= size && (best < 0 || gap < bestLen) {
			best, bestLen = end, gap
		}
		end = max(end, o.Offset+alignUp(o.Size))
	}
	if best >= 0 {
		return best
	}
	return end
}

func alignUp(n int) int { return (n + arenaAlign - 1) &^ (arenaAlign - 1) }

// lives returns for each position the last step that needs the memory of the
// value there; len(g.Values) for outputs.
func lives(g *Graph) []int {
	pos := make(map[*Value]int, len(g.Values))
	root := make([]int, len(g.Values)) // position of the value whose memory it is
	last := make([]int, len(g.Values))
	for i, v := range g.Values {
		pos[v] = i
		root[i], last[i] = i, i
		if (v.Op.Is(View) || v.Op.Is(State)) && len(v.Args) > 0 {
			root[i] = root[pos[v.Args[0]]]
		}
		for _, a := range v.Args {
			last[root[pos[a]]] = i
		}
	}
	for _, o := range g.Outputs {
		last[root[pos[o.Value]]] = len(g.Values)
	}
	return last
}

// bytesUnder returns the bytes of a value of the type, or which dimension is
// not bound or that they are too many.
func bytesUnder(t Type, b Dims) (int, error) {
	n := uint64(1)
	for i, d := range t.Shape {
		size := d.Size
		if d.Name != "" {
			var ok bool
			if size, ok = b[d.Name]; !ok {
				return 0, fmt.Errorf("dimension %s is not bound", d.Name)
			}
		}
		if i == len(t.Shape)-1 && t.DType.Quantized() {
			size /= t.DType.BlockElems()
		}
		if size < 0 {
			return 0, fmt.Errorf("dimension %s is negative", d)
		}
		hi, lo := bits.Mul64(n, uint64(size))
		if hi != 0 || lo > maxSize {
			return 0, fmt.Errorf("%s under %s is too large", t, b)
		}
		n = lo
	}
	if n *= uint64(t.DType.BlockBytes()); n > maxSize {
		return 0, fmt.Errorf("%s under %s is too large", t, b)
	}
	return int(n), nil
}
