package kern

import (
	"encoding/binary"
	"math"

	"graphrun/graph"
)

// quantMin is the smallest maximum a block is quantized with; smaller blocks
// count as zero. It keeps 127/max finite and the scales above the subnormal
// range, where some processors are many times slower.
const quantMin = 0x1p-100

// QuantizeRow quantizes an activation row of K = len(x) elements for products
// of type t, Q8 (blocks of B = 32) or Q8K (B = 256).
//
//	a = max |x| over the block    d = a/127    q = roundEven(x·(127/a))
//
// dst, of t.RowBytes(K) bytes, gets the K int8 numbers q, then one
// little-endian f32 d per block, then the sums of q: an int32 per 32 elements
// for Q8, an int16 per 16 elements for Q8K. d is f32, so no finite activation
// overflows it. A block with a < 2⁻¹⁰⁰ has d = 0 and q = 0; a block with a NaN
// or an infinity has non-finite d and q = 0, which makes products non-finite.
// K must be a multiple of B.
func QuantizeRow(t graph.DType, dst []byte, x []float32) {
	if t != graph.Q8 && t != graph.Q8K {
		panic("kern: not a quantized activation type: " + t.String())
	}
	if len(x)%t.BlockElems() != 0 {
		panic("kern: x is not whole blocks")
	}
	if len(dst) < t.RowBytes(len(x)) {
		panic("kern: dst too short")
	}
	var p actParts
	p.set(t, dst, len(x), 0)
	quantizeRow(&p, x)
}

// QuantizePart quantizes elements n to n+len(x)-1 of a row of k elements, as
// QuantizeRow does, into dst, which is the whole row. All three are whole
// blocks.
func QuantizePart(t graph.DType, dst []byte, k, n int, x []float32) {
	if t != graph.Q8 && t != graph.Q8K {
		panic("kern: not a quantized activation type: " + t.String())
	}
	if b := t.BlockElems(); k%b != 0 || n%b != 0 || len(x)%b != 0 {
		panic("kern: not whole blocks")
	}
	if n < 0 || n+len(x) > k || len(dst) < t.RowBytes(k) {
		panic("kern: dst too short")
	}
	var p actParts
	p.set(t, dst, k, n)
	quantizeRow(&p, x)
}

// actParts are the parts of a quantized row from a block on.
type actParts struct {
	t               graph.DType
	q, scales, sums []byte
}

// set takes the parts of a row of k elements from element n on.
func (p *actParts) set(t graph.DType, row []byte, k, n int) {
	block := t.BlockElems()
	sums := t.RowBytes(block) - block - 4 // bytes of sums per block
	b := n / block
	p.t, p.q, p.scales, p.sums = t, row[n:k], row[k+4*b:], row[k+k/block*4+b*sums:]
}

func quantizeRowGeneric(p *actParts, x []float32) {
	t := p.t
	k, size, group := len(x), 32, 32
	if t == graph.Q8K {
		size, group = 256, 16
	}
	scales, sums := p.scales, p.sums
	for b := 0; b < k/size; b++ {
		xb, q := x[b*size:(b+1)*size], p.q[b*size:(b+1)*size]
		// As integers, magnitudes order like the floats and NaN comes last.
		var bits uint32
		for _, v := range xb {
			bits = max(bits, math.Float32bits(v)&^(1<<31))
		}
		a := math.Float32frombits(bits)
		d, inv := a/127, 127/a
		if a < quantMin {
			d, inv = 0, 0
		}
		putF32(scales, 4*b, d)
		if inv == 0 || bits >= 0x7f800000 {
			clear(q)
		} else {
			for i, v := range xb {
				q[i] = byte(int8(math.RoundToEven(float64(v * inv))))
			}
		}
		for g := 0; g < size; g += group {
			s := 0
			for _, v := range q[g : g+group] {
				s += int(int8(v))
			}
			if t == graph.Q8 {
				binary.LittleEndian.PutUint32(sums[b*4:], uint32(int32(s)))
			} else {
				binary.LittleEndian.PutUint16(sums[(b*size+g)/group*2:], uint16(int16(s)))
			}
		}
	}
}
