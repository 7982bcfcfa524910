package kern

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"graphrun/graph"
)

// A format says how a weight type is decoded. One of b32, b256, f is set.
type format struct {
	act graph.DType
	// b32 and b256 decode one block.
	b32  func(dst *block32, src []byte)
	b256 func(dst *block256, src []byte)
	// elem decodes plain element i.
	elem func(src []byte, i int) float32
	// off makes every q of the format non-negative: 0 ≤ q+off ≤ 255.
	off int
	// min tells that blocks carry a minimum (m, mn).
	min bool
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
	graph.F32:    {act: graph.F32, elem: elemF32},
	graph.F16:    {act: graph.F32, elem: elemF16},
	graph.BF16:   {act: graph.F32, elem: elemBF16},
	graph.Q8_0:   {act: graph.Q8, b32: decodeQ8_0, off: 128},
	graph.Q4_0:   {act: graph.Q8, b32: decodeQ4_0, off: 8},
	graph.Q4_1:   {act: graph.Q8, b32: decodeQ4_1, min: true},
	graph.Q5_0:   {act: graph.Q8, b32: decodeQ5_0, off: 16},
	graph.Q5_1:   {act: graph.Q8, b32: decodeQ5_1, min: true},
	graph.IQ4_NL: {act: graph.Q8, b32: decodeIQ4_NL, off: 128},
	graph.MXFP4:  {act: graph.Q8, b32: decodeMXFP4, off: 12},
	graph.Q2_K:   {act: graph.Q8K, b256: decodeQ2_K, min: true},
	graph.Q3_K:   {act: graph.Q8K, b256: decodeQ3_K, off: 4},
	graph.Q4_K:   {act: graph.Q8K, b256: decodeQ4_K, min: true},
	graph.Q5_K:   {act: graph.Q8K, b256: decodeQ5_K, min: true},
	graph.Q6_K:   {act: graph.Q8K, b256: decodeQ6_K, off: 32},
	graph.IQ4_XS: {act: graph.Q8K, b256: decodeIQ4_XS, off: 128},
	graph.TQ1_0:  {act: graph.Q8K, b256: decodeTQ1_0, off: 1},
	graph.TQ2_0:  {act: graph.Q8K, b256: decodeTQ2_0, off: 1},
}

func elemF32(src []byte, i int) float32 { return f32at(src, 4*i) }
func elemF16(src []byte, i int) float32 { return f16at(src, 2*i) }
func elemBF16(src []byte, i int) float32 {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
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
	case f.b32 != nil:
		var b block32
		for ; len(dst) > 0; dst, src = dst[32:], src[nb:] {
			f.b32(&b, src[:nb])
			for i, q := range b.q {
				v := float32(float32(q) * b.d)
				if f.min {
					v += b.m
				}
				dst[i] = v
			}
		}
	case f.b256 != nil:
		var b block256
		for ; len(dst) > 0; dst, src = dst[256:], src[nb:] {
			f.b256(&b, src[:nb])
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
			dst[i] = f.elem(src, i)
		}
	}
}
