package kern

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"graphrun/graph"
)

// A format says how a weight type is used. Functions that decode it are
// reached through switches, not pointers, so that blocks stay on the stack.
type format struct {
	act graph.DType
	// off makes every q of the format non-negative: 0 ≤ q+off ≤ 255.
	off int
	// min tells that blocks carry a minimum (m, mn).
	min bool
	// group is the number of elements that share a scale within a superblock.
	group int
}

// block32 is a decoded block of 32: element i is q[i]·d, or q[i]·d + m if the
// format has minima.
type block32 struct {
	q    [32]int8
	d, m float32
}

// block256 is a decoded superblock: element i of group j = i/16 is
// (d·sc[j])·q[i] − dmin·mn[j], each product rounded to f32. Formats with
// groups of 32 or 256 repeat their scale.
type block256 struct {
	q       [256]int8
	sc      [16]int8
	mn      [16]uint8
	d, dmin float32
}

var formats = [graph.Q8]format{
	graph.F32:    {act: graph.F32},
	graph.F16:    {act: graph.F32},
	graph.BF16:   {act: graph.F32},
	graph.Q8_0:   {act: graph.Q8, off: 128},
	graph.Q4_0:   {act: graph.Q8, off: 8},
	graph.Q4_1:   {act: graph.Q8, min: true},
	graph.Q5_0:   {act: graph.Q8, off: 16},
	graph.Q5_1:   {act: graph.Q8, min: true},
	graph.IQ4_NL: {act: graph.Q8, off: 128},
	graph.MXFP4:  {act: graph.Q8, off: 12},
	graph.Q2_K:   {act: graph.Q8K, group: 16, min: true},
	graph.Q3_K:   {act: graph.Q8K, group: 16, off: 4},
	graph.Q4_K:   {act: graph.Q8K, group: 32, min: true},
	graph.Q5_K:   {act: graph.Q8K, group: 32, min: true},
	graph.Q6_K:   {act: graph.Q8K, group: 16, off: 32},
	graph.IQ4_XS: {act: graph.Q8K, group: 32, off: 128},
	graph.IQ3_S:  {act: graph.Q8K, group: 32, off: 16},
	graph.TQ1_0:  {act: graph.Q8K, group: 32, off: 1},
	graph.TQ2_0:  {act: graph.Q8K, group: 32, off: 1},
}

// decode32 decodes one block of a type with blocks of 32.
func decode32(t graph.DType, b *block32, p []byte) {
	switch t {
	case graph.Q8_0:
		decodeQ8_0(b, p)
	case graph.Q4_0:
		decodeQ4_0(b, p)
	case graph.Q4_1:
		decodeQ4_1(b, p)
	case graph.Q5_0:
		decodeQ5_0(b, p)
	case graph.Q5_1:
		decodeQ5_1(b, p)
	case graph.IQ4_NL:
		decodeIQ4_NL(b, p)
	case graph.MXFP4:
		decodeMXFP4(b, p)
	}
}

// decode256 decodes one block of a type with blocks of 256.
func decode256(t graph.DType, b *block256, p []byte) {
	switch t {
	case graph.Q2_K:
		decodeQ2_K(b, p)
	case graph.Q3_K:
		decodeQ3_K(b, p)
	case graph.Q4_K:
		decodeQ4_K(b, p)
	case graph.Q5_K:
		decodeQ5_K(b, p)
	case graph.Q6_K:
		decodeQ6_K(b, p)
	case graph.IQ4_XS:
		decodeIQ4_XS(b, p)
	case graph.IQ3_S:
		decodeIQ3_S(b, p)
	case graph.TQ1_0:
		decodeTQ1_0(b, p)
	case graph.TQ2_0:
		decodeTQ2_0(b, p)
	}
}

// elem decodes element i of a plain type.
func elem(t graph.DType, src []byte, i int) float32 {
	switch t {
	case graph.F16:
		return f16at(src, 2*i)
	case graph.BF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
	return f32at(src, 4*i)
}

func f32at(p []byte, i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(p[i:])) }
func i32at(p []byte, i int) int32   { return int32(binary.LittleEndian.Uint32(p[i:])) }
func i16at(p []byte, i int) int16   { return int16(binary.LittleEndian.Uint16(p[i:])) }
func f16at(p []byte, i int) float32 {
	return float16.Frombits(binary.LittleEndian.Uint16(p[i:])).Float32()
}

func putF32(p []byte, i int, v float32) { binary.LittleEndian.PutUint32(p[i:], math.Float32bits(v)) }

// dequantRowGeneric is the specification of DequantRow. The float32
// conversions keep the compiler from fusing product and sum.
func dequantRowGeneric(t graph.DType, dst []float32, src []byte) {
	f := &formats[t]
	nb := t.BlockBytes()
	switch {
	case f.act == graph.Q8:
		var b block32
		for ; len(dst) > 0; dst, src = dst[32:], src[nb:] {
			decode32(t, &b, src[:nb])
			for i, q := range b.q {
				v := float32(float32(q) * b.d)
				if f.min {
					v += b.m
				}
				dst[i] = v
			}
		}
	case f.act == graph.Q8K:
		var b block256
		for ; len(dst) > 0; dst, src = dst[256:], src[nb:] {
			decode256(t, &b, src[:nb])
			for j := range 16 {
				d := b.d * float32(b.sc[j])
				m := float32(b.dmin * float32(b.mn[j]))
				for i := 16 * j; i < 16*j+16; i++ {
					dst[i] = float32(d*float32(b.q[i])) - m
				}
			}
		}
	default:
		for i := range dst {
			dst[i] = elem(t, src, i)
		}
	}
}
