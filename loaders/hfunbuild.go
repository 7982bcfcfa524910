package loaders

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"graphrun/graph"
)

// tensors returns the tensors of the folder, in the order of the file's.
func (w *HFWriter) tensors(o HFWriteOptions) ([]*Tensor, error) {
	entries := map[string]*HFTensor{}
	for i := range w.hf.Tensors {
		e := &w.hf.Tensors[i]
		if entries[e.GGUF] == nil {
			entries[e.GGUF] = e
		}
		stem, ok := strings.CutSuffix(e.GGUF, ".weight")
		if bias := stem + ".bias"; ok && strings.HasSuffix(e.Name, ".weight") && entries[bias] == nil {
			b := *e
			b.GGUF, b.Name = bias, strings.TrimSuffix(e.Name, ".weight")+".bias"
			entries[bias] = &b
		}
	}
	for i := range w.hf.Tensors { // biases with a name of their own
		if e := &w.hf.Tensors[i]; strings.HasSuffix(e.GGUF, ".bias") {
			entries[e.GGUF] = e
		}
	}
	var out []*Tensor
	for _, t := range w.model.Tensors {
		if w.drop[t.Name] {
			continue
		}
		n := hfNames{layer: layerOf(t.Name), expert: -1}
		pattern := t.Name
		if n.layer >= 0 {
			pattern = "blk.N." + t.Name[strings.IndexByte(t.Name[4:], '.')+5:]
		}
		e := entries[pattern]
		if e == nil {
			return nil, &TensorError{File: t.File, Name: t.Name, Err: fmt.Errorf("a folder of %s has no place for it", w.arch)}
		}
		name := n.fill(e.Name)
		if !e.Outer {
			name = w.hf.Prefixes[0] + name
		}
		made, err := w.tensor(t, e, name, o)
		if err != nil {
			return nil, &TensorError{File: t.File, Name: t.Name, Err: err}
		}
		out = append(out, made...)
	}
	return out, nil
}

// tensor returns what one tensor of the file becomes.
func (w *HFWriter) tensor(t *Tensor, e *HFTensor, name string, o HFWriteOptions) ([]*Tensor, error) {
	m := rowsOf(t)
	if t.made != nil && t.Data == nil {
		m = t.made.rows
	}
	if t.DType.Quantized() && !(t.DType == graph.MXFP4 && e.Form >= EvenRows && o.Type == graph.Invalid) {
		if o.Type == graph.Invalid || o.Decode == nil {
			return nil, fmt.Errorf("is %s, a type that safetensors files do not have; --type bf16, f16 or f32 decodes it", t.DType)
		}
		m = m.decoded(o)
	}
	var err error
	switch {
	case e.Form == PerExpert:
		var out []*Tensor
		for x := range t.Shape[0] {
			out = append(out, w.made(strings.Replace(name, "experts.E.", fmt.Sprintf("experts.%d.", x), 1), m.part(x)))
		}
		return out, nil
	case e.Form == OddRows:
		return nil, nil // with the even ones
	case e.Form == EvenRows:
		other, ok := w.model.Tensor(strings.Replace(t.Name, "ffn_gate_exps", "ffn_up_exps", 1))
		if !ok || other.DType != t.DType || other.Size() != t.Size() {
			return nil, errors.New("the rows between its own, of ffn_up_exps, are missing or differ in type or shape")
		}
		odd := rowsOf(other)
		if m.dtype != t.DType {
			odd = odd.decoded(o)
		}
		m = weave(m, odd)
	case e.Heads != "" && w.hf.Pairs != "" && w.Text(w.hf.Pairs) != "half":
		m, err = m.split(w.Int(e.Heads))
	}
	if err != nil {
		return nil, err
	}
	if e.Form == EvenRows || e.Form == Swapped {
		switch {
		case m.dtype == graph.MXFP4:
			blocks, scales := unpackMXFP4(m)
			return []*Tensor{w.made(name+"_blocks", blocks), w.made(name+"_scales", scales)}, nil
		case len(m.shape) == 3:
			if m, err = m.swapped(); err != nil {
				return nil, err
			}
		}
	}
	if m.dtype == graph.F32 && (len(t.Shape) == 1 || !strings.HasSuffix(t.Name, ".weight")) {
		plus := float32(0)
		if strings.HasSuffix(name, "norm.weight") {
			plus = w.hf.NormPlus
		}
		return []*Tensor{w.vector(name, m, plus)}, nil
	}
	return []*Tensor{w.made(name, m)}, nil
}

// decoded returns a matrix of blocks in a plain type.
func (m *rows) decoded(o HFWriteOptions) *rows {
	return &rows{dtype: o.Type, shape: m.shape, elems: m.elems, from: m.from,
		fill: func(dst []byte, i int) error {
			raw, x := make([]byte, m.unit()), make([]float32, m.elems)
			if err := m.fill(raw, i); err != nil {
				return err
			}
			o.Decode(m.dtype, x, raw)
			putFloats(dst, o.Type, x)
			return nil
		}}
}

func (w *HFWriter) made(name string, m *rows) *Tensor {
	t := &Tensor{Name: name, DType: m.dtype, Shape: m.shape, File: m.from.File, read: w.model.passed}
	if m.data != nil {
		t.Data = m.data
	}
	t.made = &madeTensor{rows: m, check: w.model.Check}
	return t
}

// vector returns f32 numbers less plus, in the smallest type that gives the same
// f32 numbers again: that of the matrices, f32 or f64.
func (w *HFWriter) vector(name string, m *rows, plus float32) *Tensor {
	m = m.numbers()
	x := make([]float32, m.count())
	small := w.usual()
	fits := map[graph.DType]bool{small: small == graph.BF16 || small == graph.F16, graph.F32: true, graph.F64: true}
	var two [2]byte
	var back [1]float32
	err := guardFault(func() error {
		for i := range x {
			if err := m.decode(x[i:i+1], i); err != nil {
				return err
			}
			y := x[i] - plus
			fits[graph.F32] = fits[graph.F32] && same(y+plus, x[i])
			fits[graph.F64] = fits[graph.F64] && same(float32(float64(x[i])-float64(plus)+float64(plus)), x[i])
			if fits[small] && small != graph.F32 {
				putFloats(two[:], small, []float32{y})
				if err := floats(back[:], small, two[:]); err != nil {
					return err
				}
				fits[small] = same(back[0]+plus, x[i])
			}
		}
		return nil
	}, w.model.Check)
	w.keep(err)
	dtype := graph.F64
	switch {
	case fits[small]:
		dtype = small
	case fits[graph.F32]:
		dtype = graph.F32
	case !fits[graph.F64]:
		w.Note("tensor %s has numbers so near 0 that %v less than them is rounded; they come back a little different", name, plus)
	}
	out := &rows{dtype: dtype, shape: m.shape, elems: 1, from: m.from, fill: func(dst []byte, i int) error {
		if dtype == graph.F64 {
			binary.LittleEndian.PutUint64(dst, math.Float64bits(float64(x[i])-float64(plus)))
		} else {
			putFloats(dst, dtype, []float32{x[i] - plus})
		}
		return nil
	}}
	return w.made(name, out)
}

func same(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
