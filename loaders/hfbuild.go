package loaders

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"graphrun/graph"
)

// eagerBytes is the most bytes of a made tensor that is made at once, when the
// folder is opened: vectors.
const eagerBytes = 1 << 18

// build gives the model its tensors, in the order of the record, layer by layer.
func (f *hfFolder) build(m *Model, r *HFReader) error {
	const output = "output.weight"
	if out := f.targets[output]; r.tied() {
		if out != nil {
			f.notes = append(f.notes, fmt.Sprintf("tensor %s is not used: tie_word_embeddings says that the output is the embedding", out.from))
			delete(f.targets, output)
		}
	} else if out == nil && r.err == nil {
		return &TensorError{Format: hf, File: f.src.Path, Name: f.sourceName(output),
			Err: errors.New("missing, expected it as tie_word_embeddings is false")}
	}
	if r.err != nil {
		return r.err
	}
	layers := r.Key("block_count")
	if err := f.biases(r, layers); err != nil {
		return err
	}
	for _, name := range f.order(layers) {
		t := f.targets[name]
		if n := layerOf(name); n >= layers {
			return &TensorError{Format: hf, File: f.src.Path, Name: t.from, Err: fmt.Errorf("belongs to layer %d, expected the %d layers of %s", n, layers, r.Config.where("num_hidden_layers"))}
		}
		out, err := f.tensor(t, r)
		if err != nil {
			var te *TensorError
			if errors.As(err, &te) {
				return err
			}
			return &TensorError{Format: hf, File: f.src.Path, Name: t.from, Err: err}
		}
		m.add(out)
	}
	for _, name := range slices.Sorted(maps.Keys(r.derived)) {
		if m.index[name] == nil {
			m.add(derivedTensor(f.dir, name, r.derived[name]))
		}
	}
	if f.unfit > 0 {
		f.notes = append(f.notes, fmt.Sprintf("%d matrices have rows that are no multiple of %d numbers and are not quantized", f.unfit, f.o.Quantize.BlockElems()))
	}
	return nil
}

// hfBiases are the fields which say that matrices have biases.
var hfBiases = []struct {
	field    string
	matrices []string
}{
	{"attention_bias", []string{"attn_q", "attn_k", "attn_v", "attn_output"}},
	{"mlp_bias", []string{"ffn_gate", "ffn_up", "ffn_down"}},
}

// biases refuses a folder without a bias that its config.json speaks of.
func (f *hfFolder) biases(r *HFReader, layers int) error {
	for _, b := range hfBiases {
		if on, _ := r.Bool(b.field); !on {
			continue
		}
		for l := range min(layers, len(f.targets)) { // a layer has a tensor at least
			for _, name := range b.matrices {
				name = fmt.Sprintf("blk.%d.%s", l, name)
				if f.targets[name+".weight"] == nil || f.targets[name+".bias"] != nil || f.hf.PlainOutput && strings.HasSuffix(name, ".attn_output") {
					continue
				}
				return &TensorError{Format: hf, File: f.src.Path, Name: f.sourceName(name + ".bias"),
					Err: fmt.Errorf("missing, expected it as %s is true in %s", r.Config.where(b.field), hfConfigName)}
			}
		}
	}
	return r.err
}

func (m *Model) add(t *Tensor) {
	m.Tensors = append(m.Tensors, t)
	m.index[t.Name] = t
}

// layerOf returns the layer in a GGUF name, -1 outside of layers.
func layerOf(name string) int {
	n := -1
	fmt.Sscanf(name, "blk.%d.", &n)
	return n
}

// order returns the names of all targets: outside of layers first, then layer
// by layer, each as the record lists them.
func (f *hfFolder) order(layers int) []string {
	rank := map[string]int{}
	for i, e := range f.hf.Tensors {
		stem := strings.TrimSuffix(e.GGUF, ".weight")
		for j, name := range []string{e.GGUF, stem + ".bias"} {
			if _, ok := rank[name]; !ok {
				rank[name] = 2*i + j
			}
		}
	}
	names := slices.Collect(maps.Keys(f.targets))
	key := func(name string) (int, int) {
		n := layerOf(name)
		if n >= 0 {
			name = "blk.N." + name[strings.IndexByte(name[4:], '.')+5:]
		}
		return n, rank[name]
	}
	slices.SortFunc(names, func(a, b string) int {
		la, ra := key(a)
		lb, rb := key(b)
		if la != lb {
			return la - lb
		}
		if ra != rb {
			return ra - rb
		}
		return strings.Compare(a, b)
	})
	return names
}

// derivedTensor is a vector that the config says.
func derivedTensor(file, name string, x []float32) *Tensor {
	t := &Tensor{Name: name, DType: graph.F32, Shape: []int{len(x)}, File: file, Data: make([]byte, 4*len(x))}
	for i, v := range x {
		binary.LittleEndian.PutUint32(t.Data[4*i:], math.Float32bits(v))
	}
	t.made = &madeTensor{check: func() error { return nil }}
	return t
}

// tensor makes the tensor of a target.
func (f *hfFolder) tensor(tg *hfTarget, r *HFReader) (*Tensor, error) {
	parts := make([]*rows, len(tg.parts))
	for i, p := range tg.parts {
		var err error
		if parts[i], err = p.rows(r); err != nil {
			return nil, err
		}
		if parts[i] == nil {
			return nil, fmt.Errorf("expert %d is missing, of %d", i, len(tg.parts))
		}
	}
	m, err := parts[0], error(nil)
	switch form := tg.entry.Form; {
	case form == PerExpert:
		m, err = stack(parts)
	case form == EvenRows || form == OddRows || form == Swapped:
		if len(m.shape) == 3 && m.dtype != graph.MXFP4 {
			m, err = m.swapped()
		}
		if err == nil && form != Swapped {
			m, err = m.every(int(form - EvenRows))
		}
	case tg.entry.Heads != "" && f.o.GGUF && f.hf.Pairs != "":
		m, err = m.interleave(r.Key(tg.entry.Heads))
	}
	if err != nil {
		return nil, err
	}
	plus := float32(0)
	if strings.HasSuffix(tg.from, "norm.weight") {
		plus = f.hf.NormPlus
	}
	return f.finish(tg.name, m, plus)
}

// rows returns the content of a part, nil if there is none.
func (p hfPart) rows(r *HFReader) (*rows, error) {
	switch {
	case p.blocks != nil && p.scales != nil:
		return mxfp4(p.blocks, p.scales)
	case p.blocks != nil || p.scales != nil:
		return nil, errors.New("has only one of its two halves, _blocks and _scales")
	case p.plain == nil && p.scale != nil:
		return nil, fmt.Errorf("is missing, while %s is there", p.scale.Name)
	case p.plain == nil:
		return nil, nil
	}
	m := rowsOf(p.plain)
	f8 := m.dtype == graph.F8_E4M3 || m.dtype == graph.F8_E5M2
	switch {
	case p.scale != nil && !f8:
		return nil, fmt.Errorf("found %s with factors %s, expected f8", m.dtype, p.scale.Name)
	case p.scale != nil:
		tile, _, err := r.Config.Ints("/quantization_config.weight_block_size")
		if err != nil {
			return nil, err
		}
		if len(tile) != 2 {
			tile = []int{0, 0}
		}
		return m.scaled(p.scale, [2]int{tile[0], tile[1]})
	case f8 && len(m.shape) > 1 && r.Config.Has("/quantization_config"):
		return nil, fmt.Errorf("found %s without factors (_scale_inv or _scale), which quantization_config asks for", m.dtype)
	case f8:
		return m.as(graph.BF16, 0), nil // exact
	}
	return m, nil
}

// finish gives a tensor the type a file has it in: f32 for vectors, a type with
// kernels for matrices.
func (f *hfFolder) finish(name string, m *rows, plus float32) (*Tensor, error) {
	vector := len(m.shape) == 1 || !strings.HasSuffix(name, ".weight")
	switch m.dtype {
	case graph.F32, graph.F16, graph.BF16:
	case graph.F64:
		m, plus = m.as(graph.F32, plus), 0
	case graph.MXFP4:
		if vector {
			return nil, errors.New("found a packed vector, expected plain numbers")
		}
	default:
		return nil, &UnsupportedError{What: "type of weights", Name: m.dtype.String(), Known: []string{"f32", "f16", "bf16", "f64", "f8_e4m3", "f8_e5m2", "mxfp4 as _blocks and _scales"}}
	}
	switch q := f.o.Quantize; {
	case vector:
		m = m.as(graph.F32, plus)
	case q == graph.Invalid || m.dtype == graph.MXFP4 || strings.HasSuffix(name, "ffn_gate_inp.weight"): // a router stays exact
	case m.elems == 0 || m.elems%q.BlockElems() != 0:
		f.unfit++
	default:
		m = m.encoded(q, f.o.Encode)
	}
	t := &Tensor{Name: name, DType: m.dtype, Shape: m.shape, File: m.from.File, read: f.src.passed}
	if m.data != nil {
		t.Data, t.Offset = m.data, m.from.Offset
		return t, nil
	}
	t.made = &madeTensor{rows: m, check: f.src.Check}
	if n := t.Size(); n <= eagerBytes && vector {
		buf := make([]byte, n)
		if err := t.makeAll(buf); err != nil {
			return nil, err
		}
		t.Data = buf
	}
	return t, nil
}

// encoded returns the rows in a type of blocks.
func (m *rows) encoded(q graph.DType, encode func([]byte, []float32) error) *rows {
	return &rows{dtype: q, shape: m.shape, elems: m.elems, from: m.from,
		fill: func(dst []byte, i int) error {
			x := make([]float32, m.elems)
			if err := m.decode(x, i); err != nil {
				return err
			}
			return encode(dst, x)
		}}
}

// SourceName returns the name that a tensor has in the folder the model was
// opened from, the name itself for other models.
func (m *Model) SourceName(name string) string {
	if m.source != nil {
		if s := m.source(name); s != "" {
			return s
		}
	}
	return name
}
