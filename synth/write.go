package synth

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"strings"

	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/quant"
)

// Options say how a file is written.
type Options struct {
	// Type is one of Types: a block type or a mixture.
	Type string
	// Pure gives every matrix the type itself: no more bits for the head or
	// for chosen layers.
	Pure bool
	// Seed makes another file of the same shape.
	Seed uint64
	// Workers is the number of goroutines that make blocks, 0 is one for each
	// processor.
	Workers int
	// Progress is called with the bytes of tensor data written so far.
	Progress func(done int)
}

// Plan says what a file will hold.
type Plan struct {
	Shape   Shape
	Tensors []loaders.TensorInfo
	Bytes   int // of tensor data
	Params  int
	// Fallbacks counts the matrices whose rows do not divide into the blocks of
	// the type they should have: "q4_k as q5_0".
	Fallbacks map[string]int

	mixture quant.Mixture
	tensors []tensor
}

// NewPlan chooses the type of every tensor. The error of an unknown type lists
// the known ones.
func NewPlan(s Shape, o Options) (*Plan, error) {
	m, err := mixtureByName(o.Type)
	if err != nil {
		return nil, err
	}
	p := &Plan{Shape: s, Fallbacks: map[string]int{}, mixture: m, tensors: s.tensors()}
	choices, err := s.choose(p.tensors, m, o.Pure)
	if err != nil {
		return nil, fmt.Errorf("synth: %w", err)
	}
	for i, t := range p.tensors {
		dt := choices[i].Type
		if wanted := choices[i].Wanted; dt != wanted {
			p.Fallbacks[fmt.Sprintf("%s as %s", wanted, dt)]++
		}
		info := loaders.TensorInfo{Name: t.name, DType: dt, Shape: t.shape}
		n, err := info.Bytes()
		if err != nil {
			return nil, fmt.Errorf("synth: tensor %s: %w", t.name, err)
		}
		p.Tensors = append(p.Tensors, info)
		p.Bytes += n
		p.Params += elems(t.shape)
	}
	return p, nil
}

func elems(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Write writes a file of the shape. It appears under its name when it is whole;
// when ctx ends before, nothing is left.
func Write(ctx context.Context, path string, s Shape, o Options) error {
	p, err := NewPlan(s, o)
	if err != nil {
		return err
	}
	return p.Write(ctx, path, o)
}

// Write writes the file of the plan at path.
func (p *Plan) Write(ctx context.Context, path string, o Options) error {
	done := 0
	return loaders.Create(path, p.Shape.metadata(p.mixture), p.Tensors, func(w io.Writer, i int) error {
		return p.data(ctx, w, i, o, &done)
	})
}

// WriteTo writes the file of the plan to w.
func (p *Plan) WriteTo(ctx context.Context, w io.Writer, o Options) error {
	done := 0
	return loaders.Write(w, p.Shape.metadata(p.mixture), p.Tensors, func(w io.Writer, i int) error {
		return p.data(ctx, w, i, o, &done)
	})
}

// chunk is the number of bytes, about, that one worker makes at a time.
const chunk = 1 << 20

// data writes tensor i: workers make chunks ahead, which are written in order.
func (p *Plan) data(ctx context.Context, w io.Writer, i int, o Options, done *int) error {
	t, info := p.tensors[i], p.Tensors[i]
	total, err := info.Bytes()
	if err != nil {
		return err
	}
	k := t.shape[len(t.shape)-1]
	rowBytes := info.DType.RowBytes(k)
	size := min(total, max(1, chunk/rowBytes)*rowBytes)
	workers := o.Workers
	if len(t.shape) == 1 {
		workers = 1
	}
	count := progressWriter{w, done, o.Progress}
	return loaders.WriteChunks(ctx, &count, total, size, workers, func(buf []byte, c int) error {
		p.fill(buf, t, info.DType, o.Seed, c)
		return nil
	})
}

// progressWriter tells how many bytes have passed.
type progressWriter struct {
	w        io.Writer
	done     *int
	progress func(done int)
}

func (p *progressWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	*p.done += n
	if p.progress != nil && err == nil {
		p.progress(*p.done)
	}
	return n, err
}

// fill makes chunk c of a tensor. What it writes depends on the seed, the name
// of the tensor and c alone.
func (p *Plan) fill(buf []byte, t tensor, dt graph.DType, seed uint64, c int) {
	h := fnv.New64a()
	io.WriteString(h, t.name)
	r := random(h.Sum64() ^ seed*0x9e3779b97f4a7c15)
	r = random(r.next() + uint64(c)*0xd1342543de82ef95)
	switch {
	case t.role == "rope_freqs":
		putFloats(buf, p.Shape.ropeFreqs())
	case len(t.shape) == 1 && strings.Contains(t.role, "norm"):
		fillF32(&r, buf, 0.1)
		for i := range len(buf) / 4 {
			b := buf[4*i:]
			x := math.Float32frombits(binary.LittleEndian.Uint32(b))
			binary.LittleEndian.PutUint32(b, math.Float32bits(1+x))
		}
	case len(t.shape) == 1: // a scale
		for i := range len(buf) / 4 {
			binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(1))
		}
	default:
		fillers[dt](&r, buf, 1/math.Sqrt(float64(t.shape[len(t.shape)-1])))
	}
}

func putFloats(buf []byte, list []float64) {
	for i, x := range list {
		binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(float32(x)))
	}
}

// ropeFreqs returns the divisors of the rotation frequencies: Llama 3's, which
// stretch long waves, or Gemma 4's, which leave three quarters unrotated.
func (s *Shape) ropeFreqs() []float64 {
	if s.arch == "gemma4" {
		f := make([]float64, s.fullWidth/2)
		for i := range f {
			if f[i] = 1; i >= len(f)/4 {
				f[i] = 1e30
			}
		}
		return f
	}
	const original, low, high = 8192, 1, 4 // context of training, bounds in waves per context
	f := make([]float64, s.headWidth/2)
	for i := range f {
		wave := 2 * math.Pi * math.Pow(s.theta, float64(2*i)/float64(s.headWidth))
		switch {
		case wave < original/high:
			f[i] = 1
		case wave > original/low:
			f[i] = s.ropeFactor
		default:
			smooth := (original/wave - low) / (high - low)
			f[i] = 1 / ((1-smooth)/s.ropeFactor + smooth)
		}
	}
	return f
}
