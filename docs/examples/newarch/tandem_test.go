package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"graphrun/engine"
	"graphrun/graph"
	"graphrun/loaders"
)

// The architecture computes its formula: both backends agree with a float64
// program that is written from the formula alone.
func TestTandem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tandem.gguf")
	if err := writeModel(path); err != nil {
		t.Fatal(err)
	}
	f, err := loaders.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tokens := []int32{1, 70, 71, 3, 200, 258, 70, 9}
	want := plain{f}.logits(tokens)
	for _, backend := range []string{"ref", "cpu"} {
		m, err := engine.Open(path, engine.Options{Backend: backend, KV: graph.F32, Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s := m.NewSession()
		defer s.Close()
		if err := s.Append(t.Context(), tokens...); err != nil {
			t.Fatal(err)
		}
		for i, x := range s.Logits() {
			if d := math.Abs(float64(x) - want[i]); !(d < 1e-4) {
				t.Fatalf("%s: logit %d is %v, want %v", backend, i, x, want[i])
			}
		}
	}
}

func TestRun(t *testing.T) {
	if err := run(nil); err != nil {
		t.Error(err)
	}
}

// plain computes a tandem model in float64.
type plain struct{ f *loaders.Model }

func (p plain) weight(name string) []float64 {
	t, ok := p.f.Tensor(name)
	if !ok {
		panic("no tensor " + name)
	}
	w := make([]float64, t.Elems())
	for i := range w {
		w[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
	}
	return w
}

// times is the matrix of that name times x.
func (p plain) times(name string, x []float64) []float64 {
	w := p.weight(name)
	y := make([]float64, len(w)/len(x))
	for i, c := range w {
		y[i/len(x)] += c * x[i%len(x)]
	}
	return y
}

func rms(x, w []float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v / math.Sqrt(sum/float64(len(x))+eps) * w[i]
	}
	return y
}

// turn rotates the heads of x: pairs half a head apart.
func turn(x []float64, pos int) {
	const half = headWidth / 2
	for h := 0; h < len(x); h += headWidth {
		for i := range half {
			sin, cos := math.Sincos(float64(pos) * math.Pow(base, -2*float64(i)/headWidth))
			a, b := x[h+i], x[h+half+i]
			x[h+i], x[h+half+i] = a*cos-b*sin, a*sin+b*cos
		}
	}
}

func attend(q []float64, keys, values [][]float64) []float64 {
	out := make([]float64, len(q))
	for h := range heads {
		g := h / (heads / kvHeads) * headWidth
		var weights []float64
		sum := 0.0
		for _, k := range keys {
			dot := 0.0
			for i := range headWidth {
				dot += q[h*headWidth+i] * k[g+i]
			}
			w := math.Exp(dot / math.Sqrt(headWidth))
			weights, sum = append(weights, w), sum+w
		}
		for s, v := range values {
			for i := range headWidth {
				out[h*headWidth+i] += weights[s] / sum * v[g+i]
			}
		}
	}
	return out
}

// logits returns the logits after the last token.
func (p plain) logits(tokens []int32) []float64 {
	embd := p.weight("token_embd.weight")
	var keys, values [layers][][]float64
	var x []float64
	for pos, id := range tokens {
		x = append([]float64(nil), embd[int(id)*width:][:width]...)
		for l := range layers {
			b := fmt.Sprintf("blk.%d.", l)
			a := rms(x, p.weight(b+"norm.weight"))
			q, k := p.times(b+"attn_q.weight", a), p.times(b+"attn_k.weight", a)
			turn(q, pos)
			turn(k, pos)
			keys[l], values[l] = append(keys[l], k), append(values[l], p.times(b+"attn_v.weight", a))
			o := p.times(b+"attn_output.weight", attend(q, keys[l], values[l]))
			gate, up := p.times(b+"ffn_gate.weight", a), p.times(b+"ffn_up.weight", a)
			for i, g := range gate {
				up[i] *= g / (1 + math.Exp(-g))
			}
			for i, d := range p.times(b+"ffn_down.weight", up) {
				x[i] += residual * (o[i] + d)
			}
		}
	}
	return p.times("token_embd.weight", rms(x, p.weight("output_norm.weight")))
}
