package graph

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Diff says how two graphs differ. Ids do not count: a value of one graph is
// matched with that of the other which has the same role in the same layer, or,
// without a role, is the n-th of its operation in the layer.
type Diff struct {
	A, B  *Graph
	OnlyA []*Value // without a match in the other
	OnlyB []*Value
	Both  []Pair // matched but different, in the order of A
	Same  int    // matched and alike
}

// Pair is a value of each graph and what differs: "op", "type", "attributes",
// "arguments".
type Pair struct {
	A, B  *Value
	Parts []string
}

// Equal reports whether nothing differs.
func (d *Diff) Equal() bool { return len(d.OnlyA)+len(d.OnlyB)+len(d.Both) == 0 }

// diffKey is what matches values.
type diffKey struct {
	layer, nth int
	name       string
}

// diffKeys returns the key of each value.
func diffKeys(g *Graph) map[*Value]diffKey {
	count := map[diffKey]int{}
	keys := make(map[*Value]diffKey, len(g.Values))
	for _, v := range g.Values {
		k := diffKey{layer: v.Layer, name: v.Name}
		if v.Name == "" {
			k.name = v.Op.Name + "()" // no role looks like that
		}
		k.nth = count[k]
		count[diffKey{layer: k.layer, name: k.name}]++
		keys[v] = k
	}
	return keys
}

// Compare returns how a and b differ.
func Compare(a, b *Graph) *Diff {
	d := &Diff{A: a, B: b}
	keyA, keyB := diffKeys(a), diffKeys(b)
	inB := make(map[diffKey]*Value, len(b.Values))
	for v, k := range keyB {
		inB[k] = v
	}
	matched := make(map[*Value]bool, len(b.Values))
	for _, v := range a.Values {
		w := inB[keyA[v]]
		if w == nil {
			d.OnlyA = append(d.OnlyA, v)
			continue
		}
		matched[w] = true
		if parts := differences(v, w, keyA, keyB); parts != nil {
			d.Both = append(d.Both, Pair{v, w, parts})
		} else {
			d.Same++
		}
	}
	for _, w := range b.Values {
		if !matched[w] {
			d.OnlyB = append(d.OnlyB, w)
		}
	}
	return d
}

func differences(v, w *Value, keyA, keyB map[*Value]diffKey) (parts []string) {
	if v.Op != w.Op {
		parts = append(parts, "op")
	}
	if !v.Type.Equal(w.Type) {
		parts = append(parts, "type")
	}
	if v.Op == w.Op && !v.Attrs.Equal(w.Attrs) {
		parts = append(parts, "attributes")
	}
	same := len(v.Args) == len(w.Args)
	for i := 0; same && i < len(v.Args); i++ {
		same = keyA[v.Args[i]] == keyB[w.Args[i]]
	}
	if !same {
		parts = append(parts, "arguments")
	}
	return parts
}

// WriteText writes the differences for people; what is the same in several
// layers is one line.
func (d *Diff) WriteText(w io.Writer) error {
	var lines diffLines
	for _, v := range d.OnlyA {
		lines.add("- "+describe(v), v.Layer)
	}
	for _, v := range d.OnlyB {
		lines.add("+ "+describe(v), v.Layer)
	}
	for _, p := range d.Both {
		lines.add("~ "+p.describe(), p.A.Layer)
	}
	for _, l := range lines.list {
		text := l.text
		if len(l.layers) == 1 {
			text += fmt.Sprintf("   layer %d", l.layers[0])
		} else if len(l.layers) > 1 {
			text += "   layers " + ranges(l.layers, 8)
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d values are alike, %d differ, %d only in the first, %d only in the second\n", d.Same, len(d.Both), len(d.OnlyA), len(d.OnlyB))
	return err
}

// diffLines collects lines and the layers they are true for.
type diffLines struct {
	list []*diffLine
	at   map[string]*diffLine
}

type diffLine struct {
	text   string
	layers []int
}

func (l *diffLines) add(text string, layer int) {
	if l.at == nil {
		l.at = map[string]*diffLine{}
	}
	x := l.at[text]
	if x == nil {
		x = &diffLine{text: text}
		l.at[text] = x
		l.list = append(l.list, x)
	}
	if n := len(x.layers); layer >= 0 && (n == 0 || x.layers[n-1] != layer) {
		x.layers = append(x.layers, layer)
	}
}

// anyLayer replaces the number of v's layer in its name, blk.3.x, by a star.
func anyLayer(v *Value) string {
	if v.Layer >= 0 {
		return strings.Replace(v.Name, "."+strconv.Itoa(v.Layer)+".", ".*.", 1)
	}
	return v.Name
}

func describe(v *Value) string {
	s := v.Op.Name
	if v.Name != "" {
		s += " " + anyLayer(v)
	}
	return s + " : " + v.Type.String()
}

func (p Pair) describe() string {
	s := p.A.Op.Name
	if p.A.Name != "" {
		s += " " + anyLayer(p.A)
	}
	for i, part := range p.Parts {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		switch part {
		case "op":
			s += sep + p.A.Op.Name + " → " + p.B.Op.Name
		case "type":
			s += sep + p.A.Type.String() + " → " + p.B.Type.String()
		case "attributes":
			s += sep + attrsText(p.A) + " → " + attrsText(p.B)
		case "arguments":
			s += sep + argsText(p.A) + " → " + argsText(p.B)
		}
	}
	return s
}

func attrsText(v *Value) string { return "{" + strings.Trim(string(v.appendAttrs(nil)), " {}") + "}" }

// argsText names the arguments; those of another layer with its number, which is
// relative in a layer: ffn.res@-1 is of the layer before.
func argsText(v *Value) string {
	names := make([]string, len(v.Args))
	for i, a := range v.Args {
		if names[i] = anyLayer(a); a.Name == "" {
			names[i] = a.Op.Name
		}
		switch {
		case a.Layer == v.Layer || a.Layer < 0:
		case v.Layer < 0:
			names[i] += fmt.Sprintf("@%d", a.Layer)
		default:
			names[i] += fmt.Sprintf("@%+d", a.Layer-v.Layer)
		}
	}
	return "(" + strings.Join(names, ", ") + ")"
}
