package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"graphrun/graph"
	"graphrun/loaders"
)

// MemoryReport says what a model needs and what the machine has, in bytes.
type MemoryReport struct {
	Weights int     // of the tensors the graph reads
	Made    int     // of these, made in memory while loading, not used where they lie in the file
	KV      []KVUse // keys and values, one entry for each kind of layer
	Arena   int     // activations and scratch; before compiling an estimate from the unoptimized graph
	Total   int
	Read    bool      // weights are read into memory, not mapped
	Dropped []DropUse // parts left out by Options.Drop, in none of the numbers above
	// Available is what the machine can still give, mapped files counted as
	// available: 0 when it is not known. Limit says where the number is from.
	Available int
	Limit     string
}

// KVUse is the storage of keys and values of the layers of one kind.
type KVUse struct {
	Window    int // 0 = these layers keep every position
	Layers    int
	Positions int // in each layer, all sequences together
	Bytes     int
	DType     graph.DType
}

// MarshalJSON writes the fields, the type by its name.
func (k KVUse) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Window, Layers, Positions, Bytes int
		DType                            string
	}{k.Window, k.Layers, k.Positions, k.Bytes, k.DType.String()})
}

// KVBytes returns the storage of all keys and values.
func (r *MemoryReport) KVBytes() int {
	n := 0
	for _, k := range r.KV {
		n += k.Bytes
	}
	return n
}

// String prints the report, a line for each part.
func (r *MemoryReport) String() string {
	var b strings.Builder
	line := func(name string, n int, note string) {
		fmt.Fprintf(&b, "%-12s %12s  %s\n", name, mib(n), note)
	}
	where := "mapped from the file"
	if r.Read {
		where = "read into memory"
	}
	line("weights", r.Weights-r.Made, where)
	if r.Made > 0 {
		line("weights", r.Made, "made in memory: another type or order than in the file")
	}
	for _, k := range r.KV {
		kind := "all positions"
		if k.Window > 0 {
			kind = fmt.Sprintf("window %d", k.Window)
		}
		line("KV cache", k.Bytes, fmt.Sprintf("%s, %d layers of %d positions, %s", kind, k.Layers, k.Positions, k.DType))
	}
	line("activations", r.Arena, "")
	line("total", r.Total, "")
	for _, d := range r.Dropped {
		line("dropped", d.Bytes, fmt.Sprintf("%s: %d tensors, never read", d.Part, d.Tensors))
	}
	if r.Available > 0 {
		line("available", r.Available, r.Limit)
	}
	return b.String()
}

// fits reports whether the machine can hold the model.
func (r *MemoryReport) fits() bool { return r.Available == 0 || r.Total <= r.Available }

// estimate fills the report for a graph before it is compiled.
func estimate(g *graph.Graph, dims graph.Dims) MemoryReport {
	r := MemoryReport{Arena: peak(g, dims)}
	for _, v := range g.Values {
		switch v.Op {
		case graph.OpWeight:
			r.Weights += v.Type.Bytes(nil)
		case graph.OpCache:
			w := v.Attrs.Int("window")
			i := slices.IndexFunc(r.KV, func(k KVUse) bool { return k.Window == w && k.DType == v.Type.DType })
			if i < 0 {
				i = len(r.KV)
				r.KV = append(r.KV, KVUse{Window: w, Positions: dims.Of(v.Type.Shape[0]), DType: v.Type.DType})
			}
			r.KV[i].Layers++
			r.KV[i].Bytes += v.Type.Bytes(dims)
		}
	}
	slices.SortStableFunc(r.KV, func(a, b KVUse) int { return a.Window - b.Window })
	r.Available, r.Limit = available()
	r.sum()
	return r
}

// madeBytes returns the bytes of the weights that are not used where they lie.
func madeBytes(g *graph.Graph, f *loaders.Model) int {
	n := 0
	for _, v := range g.Values {
		if v.Op != graph.OpWeight || f == nil {
			continue
		}
		if t, ok := f.Tensor(v.Name); ok && t.Made() {
			n += t.Size()
		}
	}
	return n
}

func (r *MemoryReport) sum() { r.Total = r.Weights + r.KVBytes() + r.Arena }

// peak returns the largest sum of activations alive at once when the graph is
// evaluated in its own order.
func peak(g *graph.Graph, dims graph.Dims) int {
	last := make(map[*graph.Value]int, len(g.Values))
	owner := make(map[*graph.Value]*graph.Value, len(g.Values))
	for i, v := range g.Values {
		owner[v] = v
		if v.Op.Is(graph.View) && len(v.Args) > 0 {
			owner[v] = owner[v.Args[0]]
		}
		for _, a := range v.Args {
			last[owner[a]] = i
		}
	}
	for _, o := range g.Outputs {
		last[owner[o.Value]] = len(g.Values)
	}
	free := make(map[int]int)
	live, top := 0, 0
	for i, v := range g.Values {
		if v.Op.Is(graph.Leaf) || v.Op.Is(graph.View) || v.Op.Is(graph.State) {
			continue
		}
		n := v.Type.Bytes(dims)
		live += n
		free[last[v]] += n
		top = max(top, live)
		live -= free[i]
	}
	return top
}
