package graph

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// String returns the text form of the graph: one value a line, in graph order,
// the same bytes for the same graph. Parse reads it back.
//
//	graph "name" next=12 arena=9216 bound={T=8} {
//	  v0 = input "tokens" : i32[T] @llama.go:31
//	  v3 = weight "blk.0.attn_norm.weight" : f32[576] L0 @block.go:12
//	  v9 = rmsnorm v7 v3 {eps=1e-05} : f32[T,576] "attn.norm" L0 @block.go:40 mem=0+18432 live=3..7
//	  output "logits" = v9
//	}
//
// A value line is: id, operation, arguments (the name for a leaf), attributes
// that differ from their default, type, role, layer, origin, place in the arena
// and life in steps, data of a const. next is there when the ids of removed
// values lie above those of all present ones; arena and bound after memplan.
func (g *Graph) String() string {
	var b strings.Builder
	b.Grow(96 * (len(g.Values) + 2))
	g.WriteText(&b)
	return b.String()
}

// WriteText writes what String returns.
func (g *Graph) WriteText(w io.Writer) error {
	bw := bufio.NewWriter(w)
	buf := make([]byte, 0, 256)
	buf = append(buf, "graph "...)
	buf = strconv.AppendQuote(buf, g.Name)
	if g.nextID != g.idsInUse() {
		buf = append(buf, " next="...)
		buf = strconv.AppendInt(buf, int64(g.nextID), 10)
	}
	if g.Arena != 0 {
		buf = append(buf, " arena="...)
		buf = strconv.AppendInt(buf, int64(g.Arena), 10)
	}
	if g.Bound != nil {
		buf = append(buf, " bound="...)
		buf = append(buf, g.Bound.String()...)
	}
	bw.Write(append(buf, " {\n"...))
	for _, v := range g.Values {
		buf = append(buf[:0], "  "...)
		buf = v.appendText(buf)
		bw.Write(append(buf, '\n'))
	}
	for _, o := range g.Outputs {
		buf = append(buf[:0], "  output "...)
		buf = strconv.AppendQuote(buf, o.Name)
		buf = append(buf, " = "...)
		buf = appendID(buf, o.Value)
		bw.Write(append(buf, '\n'))
	}
	bw.WriteString("}\n")
	return bw.Flush()
}

// idsInUse returns one more than the highest id of a present value.
func (g *Graph) idsInUse() int {
	n := 0
	for _, v := range g.Values {
		n = max(n, v.ID+1)
	}
	return n
}

// String returns the binding in name order, e.g. {N=1, T=8}.
func (b Dims) String() string {
	var s strings.Builder
	s.WriteByte('{')
	for i, k := range slices.Sorted(maps.Keys(b)) {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(k + "=" + strconv.Itoa(b[k]))
	}
	s.WriteByte('}')
	return s.String()
}

// Line returns the line of the text form that stands for v, without indent.
func (v *Value) Line() string { return string(v.appendText(nil)) }

func (v *Value) appendText(b []byte) []byte {
	b = appendID(b, v)
	b = append(b, " = "...)
	b = append(b, v.Op.Name...)
	for _, a := range v.Args {
		b = appendID(append(b, ' '), a)
	}
	if v.Op.Is(Leaf) && v.Name != "" {
		b = strconv.AppendQuote(append(b, ' '), v.Name)
	}
	b = v.appendAttrs(b)
	b = append(b, " : "...)
	b = v.Type.appendText(b)
	if !v.Op.Is(Leaf) && v.Name != "" {
		b = strconv.AppendQuote(append(b, ' '), v.Name)
	}
	if v.Layer >= 0 {
		b = append(b, " L"...)
		b = strconv.AppendInt(b, int64(v.Layer), 10)
	}
	if v.Origin != "" {
		b = append(b, " @"...)
		if plainOrigin(v.Origin) {
			b = append(b, v.Origin...)
		} else {
			b = strconv.AppendQuote(b, v.Origin)
		}
	}
	if m := v.Mem; m != nil {
		b = append(b, " mem="...)
		b = strconv.AppendInt(b, int64(m.Offset), 10)
		b = append(b, '+')
		b = strconv.AppendInt(b, int64(m.Size), 10)
		b = append(b, " live="...)
		b = strconv.AppendInt(b, int64(m.First), 10)
		b = append(b, ".."...)
		b = strconv.AppendInt(b, int64(m.Last), 10)
	}
	if v.Op == OpConst {
		b = append(b, " data="...)
		b = append(b, floatsText(v.Data)...)
	}
	return b
}

// appendAttrs prints the attributes that say more than their default does.
func (v *Value) appendAttrs(b []byte) []byte {
	sep := " {"
	for _, x := range v.Attrs {
		if s := v.Op.attr(x.Key); s != nil && !s.Required && equalVal(s.Default, x.Val) {
			continue
		}
		b = append(b, sep...)
		b = append(b, x.Key...)
		b = append(b, '=')
		b = append(b, attrText(x.Val)...)
		sep = ", "
	}
	if sep == ", " {
		b = append(b, '}')
	}
	return b
}

// appendText prints what Type.String returns.
func (t Type) appendText(b []byte) []byte {
	b = append(b, t.DType.String()...)
	b = append(b, '[')
	for i, d := range t.Shape {
		if i > 0 {
			b = append(b, ',')
		}
		if d.Name != "" {
			b = append(b, d.Name...)
		} else {
			b = strconv.AppendInt(b, int64(d.Size), 10)
		}
	}
	return append(b, ']')
}

func appendID(b []byte, v *Value) []byte {
	if v == nil {
		return append(b, "v?"...)
	}
	return strconv.AppendInt(append(b, 'v'), int64(v.ID), 10)
}

// plainOrigin reports whether the origin can stand without quotes.
func plainOrigin(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"#{}", c) >= 0 {
			return false
		}
	}
	return true
}
