package archs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/ops"
)

func tensorError(file, name, format string, args ...any) error {
	return &loaders.TensorError{Format: "archs", File: file, Name: name, Err: fmt.Errorf(format, args...)}
}

// shapeText prints a shape as the errors and the text form do.
func shapeText(s []int) string {
	parts := make([]string, len(s))
	for i, n := range s {
		parts[i] = strconv.Itoa(n)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// binder finds the tensors of the record in the file.
type binder struct {
	m       *Model
	c       *Config
	known   map[string]bool // names the record accounts for
	used    map[*loaders.Tensor]bool
	missing []string // names with shapes
	blocks  int      // layers of the file that have a tensor
}

// bindTensors finds every tensor of the record in the file, checks shapes and
// element types, and counts what is left over.
func (m *Model) bindTensors(c *Config) {
	b := &binder{m: m, c: c, known: map[string]bool{}, used: map[*loaders.Tensor]bool{}}
	b.blocks = blocksOf(c.file)
	if b.blocks < c.layers {
		c.FailKey("block_count", "%d, the number of layers the file has tensors of", b.blocks)
		return
	}
	for _, t := range m.Arch.Tensors {
		if !t.PerLayer() {
			b.bind(t, t.Name, m.fullLayer())
			continue
		}
		for i := range m.Layers {
			b.bind(t, blockName(i, t.Name[len("blk.N."):]), &m.Layers[i])
		}
	}
	if len(b.missing) > 0 && c.err == nil {
		c.Fail(b.missingError())
	}
	b.leftOver()
}

// blockName returns the name of a tensor of layer l.
func blockName(l int, name string) string { return "blk." + strconv.Itoa(l) + "." + name }

// blocksOf returns how many layers from 0 up have a tensor in the file.
func blocksOf(f *loaders.Model) int {
	has := map[int]bool{}
	for _, t := range f.Tensors {
		rest, ok := strings.CutPrefix(t.Name, "blk.")
		num, _, dot := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(num); ok && dot && err == nil {
			has[n] = true
		}
	}
	n := 0
	for has[n] {
		n++
	}
	return n
}

// fullLayer returns the layer whose letters hold outside of layers: the first
// without a window, or the first of all.
func (m *Model) fullLayer() *Layer {
	for i := range m.Layers {
		if m.Layers[i].Full() {
			return &m.Layers[i]
		}
	}
	return &m.Layers[0]
}

// bind finds one tensor and its companions.
func (b *binder) bind(t Tensor, name string, l *Layer) {
	if t.When != nil && !t.When(l) {
		return
	}
	b.known[name] = true
	if t.Flags.Has(Ignored) {
		return
	}
	shape := b.shape(t.Shape, l)
	found, ok := b.c.file.Tensor(name)
	other := ""
	if t.Or != "" {
		other = strings.Replace(t.Or, "blk.N.", "blk."+strconv.Itoa(l.Index)+".", 1)
	}
	switch {
	case ok && other != "" && b.c.Has(other):
		b.c.Fail(tensorError(found.File, name, "the file also has %s, expected one of the two", other))
	case ok:
		b.use(name, found, shape, t.Shape)
	case t.Tied != "":
		if tied := b.m.tensors[t.Tied]; tied != nil {
			b.m.tensors[name] = tied
		}
		return
	case t.Flags.Has(Optional), other != "" && b.c.Has(other):
		return
	default:
		b.miss(name, shape, t.Shape)
		return
	}
	b.beside(t, name, shape)
}

// beside finds the bias and the scale that may belong to a matrix.
func (b *binder) beside(t Tensor, name string, shape []int) {
	stem := strings.TrimSuffix(name, ".weight")
	if t.Flags&(WithBias|MayBias) != 0 {
		bias := Tensor{Shape: t.Shape[:strings.LastIndexByte(t.Shape, ',')]}
		if !t.Flags.Has(WithBias) {
			bias.Flags = Optional
		}
		b.companion(bias, stem+".bias", shape[:len(shape)-1])
	}
	if t.Flags.Has(MayScale) {
		b.companion(Tensor{Shape: "1", Flags: Optional}, stem+".scale", []int{1})
	}
}

func (b *binder) companion(t Tensor, name string, shape []int) {
	b.known[name] = true
	if found, ok := b.c.file.Tensor(name); ok {
		b.use(name, found, shape, t.Shape)
	} else if !t.Flags.Has(Optional) {
		b.miss(name, shape, t.Shape)
	}
}

// shape returns the sizes of a shape in the letters of a layer. Register has
// checked its syntax.
func (b *binder) shape(s string, l *Layer) []int {
	out, _ := dims(s, func(letter byte) int { return b.m.size(letter, l) })
	return out
}

// size returns the number a letter of a shape stands for in a layer.
func (m *Model) size(letter byte, l *Layer) int {
	switch letter {
	case 'D':
		return m.D
	case 'V':
		return m.V
	case 'L':
		return len(m.Layers)
	case 'H':
		return l.H
	case 'G':
		return l.G
	case 'K':
		return l.K
	case 'R':
		return l.Rope.Dims
	case 'F':
		return l.F
	case 'E':
		return l.E
	case 'X':
		return l.X
	case 'P':
		return m.P
	}
	return 0
}

// use checks a tensor of the file and takes it.
func (b *binder) use(name string, t *loaders.Tensor, shape []int, letters string) {
	plain := len(shape) == 1 || !strings.HasSuffix(name, ".weight")
	known := b.c.file.SourceName(name)
	if !slices.Equal(t.Shape, shape) {
		b.c.Fail(tensorError(t.File, known, "found shape %s, expected [%s] = %s", shapeText(t.Shape), letters, shapeText(shape)))
		return
	}
	if plain && t.DType != graph.F32 {
		b.c.Fail(tensorError(t.File, known, "found %s, expected f32, as vectors are never quantized", t.DType))
		return
	}
	if !ops.IsWeightType(t.DType) {
		b.c.Fail(tensorError(t.File, known, "found %s, expected a type that weights have: f32, f16, bf16 or a block format", t.DType))
		return
	}
	b.m.tensors[name] = t
	if !b.used[t] {
		b.used[t] = true
		b.m.Params += t.Elems()
		b.m.WeightBytes += t.Size()
	}
}

func (b *binder) miss(name string, shape []int, letters string) {
	b.missing = append(b.missing, fmt.Sprintf("%s [%s] = %s", b.c.file.SourceName(name), letters, shapeText(shape)))
}

// missingError names the first missing tensors and counts the rest.
func (b *binder) missingError() error {
	const most = 8
	first, shape, _ := strings.Cut(b.missing[0], " ")
	text := "missing, expected shape " + shape
	if more := b.missing[1:]; len(more) > 0 {
		text += "; also missing: " + strings.Join(more[:min(len(more), most)], "; ")
		if len(more) > most {
			text += fmt.Sprintf(" and %d more", len(more)-most)
		}
	}
	return tensorError(b.c.file.Path, first, "%s", text)
}

// leftOver warns of tensors the record has no place for, and refuses those that
// would change the result of a matrix in use: a bias or a scale beside it.
func (b *binder) leftOver() {
	var extra []string
	for _, t := range b.c.file.Tensors {
		if b.known[t.Name] {
			continue
		}
		stem, kind, _ := cutLast(t.Name, ".")
		if w := b.m.tensors[stem+".weight"]; w != nil && b.used[w] && kind != "weight" {
			b.c.Fail(tensorError(t.File, t.Name, "%s has no %s beside %s.weight, and leaving it out would change the result", b.m.Arch.Name, kind, stem))
			return
		}
		extra = append(extra, t.Name)
	}
	b.m.warnUnused("tensors", extra)
}

// warnUnused warns of what the record has no place for, a few by name.
func (m *Model) warnUnused(what string, names []string) {
	const most = 8
	if len(names) == 0 {
		return
	}
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	m.warn("%d %s not used: %s", len(names), what, text)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
