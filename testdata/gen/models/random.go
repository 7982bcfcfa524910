package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/x448/float16"

	"graphrun/graph"
	"graphrun/loaders"
)

// source gives random numbers without any rounding that depends on the machine.
type source struct{ *rand.PCG }

func newSource(name string) source {
	h := fnv.New64a()
	h.Write([]byte(name))
	return source{rand.NewPCG(h.Sum64(), 1)}
}

// below returns a number from 0 to n-1; n is far below 2^32, so that the bias
// does not matter.
func (s source) below(n int) int { return int(s.Uint64() >> 32 * uint64(n) >> 32) }

// normal returns a number of mean 0 and variance near 1: a sum of four even
// ones, made of integers.
func (s source) normal() float32 {
	x := s.Uint64()
	sum := int(x&0xffff) + int(x>>16&0xffff) + int(x>>32&0xffff) + int(x>>48) - 2*0xffff
	return float32(sum) * (1.0 / 37837) // 65536·sqrt(4/12)
}

// data returns the bytes of a tensor. Matrices have variance 1 over the length
// of a row, so that what flows through the model keeps its size; embeddings and
// vectors have their usual sizes.
func (m *model) data(t loaders.TensorInfo) []byte {
	r := newSource(m.name + " " + t.Name)
	count, row := 1, t.Shape[len(t.Shape)-1]
	for _, n := range t.Shape {
		count *= n
	}
	center, spread := float32(0), float32(1/math.Sqrt(float64(row)))
	switch {
	case strings.Contains(t.Name, "norm"), strings.HasSuffix(t.Name, ".scale"), strings.Contains(t.Name, "output_scale"):
		center, spread = 1, 0.25
	case t.Name == "rope_freqs.weight":
		return frequencies(count)
	case strings.HasSuffix(t.Name, ".bias"), strings.Contains(t.Name, "sinks"):
		spread = 0.5
	case t.Name == "token_embd.weight", t.Name == "per_layer_token_embd.weight":
		// Where the embedding is the output too, logits would be large.
		spread = 0.3
	}
	n, err := t.Bytes()
	if err != nil {
		panic(err)
	}
	out := make([]byte, 0, n)
	if t.DType.Quantized() {
		for range count / t.DType.BlockElems() {
			out = appendBlock(out, t.DType, r, spread)
		}
		return out
	}
	for range count {
		x := center + spread*r.normal()
		switch t.DType {
		case graph.F32:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		case graph.F16:
			out = binary.LittleEndian.AppendUint16(out, float16.Fromfloat32(x).Bits())
		case graph.BF16: // cut off, not rounded: any bf16 number will do
			out = binary.LittleEndian.AppendUint16(out, uint16(math.Float32bits(x)>>16))
		default:
			panic(fmt.Sprintf("no random numbers of type %s", t.DType))
		}
	}
	return out
}

// frequencies are divisors as Llama 3 has them: 1 for the fast pairs, 8 for the
// slow ones, something between for the middle.
func frequencies(n int) []byte {
	var out []byte
	for i := range n {
		x := float32(1)
		switch {
		case i >= 2*n/3:
			x = 8
		case i >= n/3:
			x = 1 + float32(7*(i-n/3))/float32(n)
		}
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

// blocks says how a block format lies: where its scales are, and the standard
// deviation of its elements when the scales are 1 and all else is random.
// ops/q8_0.go and its neighbours have the formulas.
var blocks = map[graph.DType]struct {
	scales []int // offsets of f16 scales
	spread float64
}{
	graph.Q8_0: {[]int{0}, 73.9},
	graph.Q4_0: {[]int{0}, 4.64},
	graph.Q4_K: {[]int{0, 2}, 330},
	graph.Q6_K: {[]int{208}, 340},
}

// appendBlock appends a block of random bytes with scales that give elements of
// about the wanted spread.
func appendBlock(out []byte, dt graph.DType, r source, spread float32) []byte {
	at := len(out)
	for range dt.BlockBytes() {
		out = append(out, byte(r.Uint64()>>56))
	}
	b := out[at:]
	if dt == graph.MXFP4 { // one exponent, 2^(e-127), over elements of spread 3
		b[0] = byte(127 - 6 + r.below(3))
		return out
	}
	form, ok := blocks[dt]
	if !ok {
		panic(fmt.Sprintf("no random blocks of type %s", dt))
	}
	if dt == graph.Q6_K { // small group scales, so that d is no subnormal number
		for i := 192; i < 208; i++ {
			b[i] = byte(int8(b[i]) / 4)
		}
	}
	for _, off := range form.scales {
		d := spread / float32(form.spread) * (0.5 + float32(r.below(1024))/1024)
		binary.LittleEndian.PutUint16(b[off:], float16.Fromfloat32(d).Bits())
	}
	if dt == graph.Q4_K { // the minimum of a group is as large as the mean of what it is taken from
		d := float16.Frombits(binary.LittleEndian.Uint16(b)).Float32()
		binary.LittleEndian.PutUint16(b[2:], float16.Fromfloat32(7.5*d).Bits())
	}
	return out
}
