package graph

// LayerKinds numbers the layers of g so that equal numbers mean equal blocks:
// the same operations with the same attributes, shapes and wiring, in the same
// order. The names of weights, and their element types, may differ. Kinds are
// numbered by first appearance; a layer without values has kind -1.
func LayerKinds(g *Graph) []int {
	return numberKinds(layerHashes(g))
}

// numberKinds turns hashes into small numbers, 0 into -1.
func numberKinds(hashes []uint64) []int {
	number := map[uint64]int{0: -1}
	kinds := make([]int, len(hashes))
	for l, h := range hashes {
		k, ok := number[h]
		if !ok {
			k = len(number) - 1
			number[h] = k
		}
		kinds[l] = k
	}
	return kinds
}

// layerHashes returns a hash of the structure of each layer, 0 for one without
// values.
func layerHashes(g *Graph) []uint64 {
	layers := 0
	for _, v := range g.Values {
		layers = max(layers, v.Layer+1)
	}
	hash := make([]hasher, layers)
	count := make([]int, layers)
	at := make(map[*Value]int, len(g.Values)) // place within its layer
	for _, v := range g.Values {
		if v.Layer < 0 {
			continue
		}
		l := v.Layer
		if count[l] == 0 {
			hash[l] = newHasher()
		}
		at[v] = count[l]
		count[l]++
		hash[l].member(v, at)
	}
	out := make([]uint64, layers)
	for l, h := range hash {
		out[l] = uint64(h)
	}
	return out
}

// member adds a value of a layer. An argument of the layer counts by its place,
// any other by its type: the first block reads the embedding where the others
// read a block.
func (h *hasher) member(v *Value, at map[*Value]int) {
	h.text(v.Op.Name)
	if !v.Op.Is(View) || len(v.Args) == 0 || v.Args[0].Layer == v.Layer {
		// What a block cuts out of something outside differs from block to block.
		h.attrs(v.Attrs)
	}
	if v.Op.Is(Leaf) {
		h.shape(v.Type.Shape)
	} else {
		h.typ(v.Type)
		h.text(v.Name)
	}
	for _, a := range v.Args {
		if a.Layer == v.Layer {
			h.word(uint64(at[a]) + 1)
		} else {
			h.typ(a.Type)
		}
	}
}

// run is a piece of the picture of a graph whose repeated blocks are folded:
// layer first stands for count layers of its kind, in each of the repetitions of
// a period.
type run struct{ first, count int }

// fold divides layers of the given kinds into runs of equal neighbours, and
// finds the shortest period after which the runs repeat: [0 0 1 0 0 1 0] is the
// runs {0 2} {2 1} with period 3. Without repetition the period is the number of
// layers.
func fold(kinds []int) (runs []run, period int) {
	period = shortestPeriod(kinds)
	for l := 0; l < period && l < len(kinds); l++ {
		if l > 0 && kinds[l] == kinds[l-1] {
			runs[len(runs)-1].count++
		} else {
			runs = append(runs, run{l, 1})
		}
	}
	// A period of one kind of block is a single run.
	if period == 1 {
		runs[0].count = len(kinds)
		period = len(kinds)
	}
	return runs, period
}

// shortestPeriod returns the smallest p with kinds[i] = kinds[i-p] for all i,
// len(kinds) when none fits at least twice. It is the failure function of
// Knuth, Morris and Pratt.
func shortestPeriod(kinds []int) int {
	n := len(kinds)
	border := make([]int, n+1) // of each beginning, its longest proper one that is its end
	for i, k := 1, 0; i < n; i++ {
		for k > 0 && kinds[i] != kinds[k] {
			k = border[k]
		}
		if kinds[i] == kinds[k] {
			k++
		}
		border[i+1] = k
	}
	if p := n - border[n]; 2*p <= n {
		return p
	}
	return n
}
