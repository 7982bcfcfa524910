package graph

import (
	"math"
	"slices"
)

// CSE makes values that compute the same thing one value: pure operations with
// equal arguments, attributes and type. The first two arguments of a
// commutative operation may be swapped. Weights are the same when their names
// are, consts when their numbers are, bit for bit; inputs and caches never. Of
// two equal values the one that comes first in canonical order stays and takes
// over the role of the other if it has none.
func CSE(g *Graph) error {
	f, err := newFlow(g)
	if err != nil {
		return err
	}
	order, err := f.canonical(g)
	if err != nil {
		return err
	}
	first := make(map[uint64][]*Value, len(g.Values))
	twin := map[*Value]*Value{}
	for _, i := range order {
		v := g.Values[i]
		for k, a := range v.Args {
			if t := twin[a]; t != nil {
				v.Args[k] = t
			}
		}
		if !v.Op.Is(Pure) || v.Op.Is(State) {
			continue
		}
		h := hashValue(v)
		same := slices.IndexFunc(first[h], func(o *Value) bool { return equalValue(o, v) })
		if same < 0 {
			first[h] = append(first[h], v)
			continue
		}
		o := first[h][same]
		twin[v] = o
		if o.Name == "" {
			o.Name = v.Name
		}
	}
	if len(twin) == 0 {
		return nil
	}
	for i, o := range g.Outputs {
		if t := twin[o.Value]; t != nil {
			g.Outputs[i].Value = t
		}
	}
	g.dropPlan()
	return g.Sort()
}

// equalValue reports whether two pure values compute the same thing.
func equalValue(a, b *Value) bool {
	if a.Op != b.Op || len(a.Args) != len(b.Args) || !a.Type.Equal(b.Type) || !a.Attrs.Equal(b.Attrs) {
		return false
	}
	switch {
	case a.Op == OpConst:
		return slices.EqualFunc(a.Data, b.Data, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
	case a.Op.Is(Leaf):
		return a.Name == b.Name
	case a.Op.Is(Commutative) && len(a.Args) > 1 && a.Args[0] == b.Args[1] && a.Args[1] == b.Args[0]:
		return slices.Equal(a.Args[2:], b.Args[2:])
	}
	return slices.Equal(a.Args, b.Args)
}

// hasher is FNV-1a over words and texts.
type hasher uint64

func newHasher() hasher { return 14695981039346656037 }

func (h *hasher) word(x uint64) {
	*h = (*h ^ hasher(x)) * 1099511628211
	*h ^= *h >> 32
}

func (h *hasher) text(s string) {
	for i := range len(s) {
		*h = (*h ^ hasher(s[i])) * 1099511628211
	}
	h.word(uint64(len(s)))
}

func (h *hasher) attrs(a Attrs) {
	for _, x := range a {
		h.text(x.Key)
		switch v := x.Val.(type) {
		case int:
			h.word(uint64(v))
		case float32:
			h.word(uint64(math.Float32bits(v)))
		case string:
			h.text(v)
		default:
			h.text(attrText(v))
		}
	}
}

func (h *hasher) typ(t Type) {
	h.word(uint64(t.DType))
	h.shape(t.Shape)
}

func (h *hasher) shape(s Shape) {
	for _, d := range s {
		h.text(d.Name)
		h.word(uint64(d.Size))
	}
}

func (h *hasher) floats(fs []float32) {
	for _, f := range fs {
		h.word(uint64(math.Float32bits(f)))
	}
}

// hashValue is equal for values that equalValue calls equal.
func hashValue(v *Value) uint64 {
	h := newHasher()
	h.text(v.Op.Name)
	h.typ(v.Type)
	h.attrs(v.Attrs)
	h.floats(v.Data)
	if v.Op.Is(Leaf) && v.Op != OpConst {
		h.text(v.Name)
	}
	for i, a := range v.Args {
		id := a.ID
		if i < 2 && v.Op.Is(Commutative) && len(v.Args) > 1 {
			// The smaller of the two ids first.
			id = min(v.Args[0].ID, v.Args[1].ID)
			if i == 1 {
				id = max(v.Args[0].ID, v.Args[1].ID)
			}
		}
		h.word(uint64(id))
	}
	return uint64(h)
}

// Fingerprint returns a number that changes when anything the text form shows
// changes, origins apart. The pipeline uses it to tell whether a pass did
// something; it is much cheaper than comparing texts.
func (g *Graph) Fingerprint() uint64 {
	h := newHasher()
	h.word(uint64(g.Arena))
	for _, v := range g.Values {
		h.word(uint64(v.ID))
		h.text(v.Op.Name)
		for _, a := range v.Args {
			h.word(uint64(a.ID))
		}
		h.attrs(v.Attrs)
		h.typ(v.Type)
		h.text(v.Name)
		h.word(uint64(v.Layer))
		h.floats(v.Data)
		if m := v.Mem; m != nil {
			h.word(uint64(m.Offset))
			h.word(uint64(m.Size))
			h.word(uint64(m.Last))
		}
	}
	for _, o := range g.Outputs {
		h.text(o.Name)
		h.word(uint64(o.Value.ID))
	}
	return uint64(h)
}
