package loaders

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/x448/float16"

	"graphrun/graph"
)

// rows is the content of a tensor as units of equal size, each made when it is
// asked for: rows of a matrix, or single numbers. Where the content lies in one
// piece, data is it.
type rows struct {
	dtype graph.DType
	shape []int
	elems int    // numbers of a unit
	data  []byte // nil if units must be made
	// fill writes unit i to dst, which has the size of one.
	fill func(dst []byte, i int) error
	from *Tensor // of the file; the first, if there are several
	// woven are the two halves that the units of this one alternate between.
	woven [2]*rows
}

// unit returns the bytes of a unit, count how many there are.
func (m *rows) unit() int { return m.dtype.RowBytes(m.elems) }
func (m *rows) count() int {
	n := 1
	for _, d := range m.shape {
		n *= d
	}
	return n / max(m.elems, 1)
}

// rowsOf returns the rows of a tensor, or its numbers if it has one dimension.
func rowsOf(t *Tensor) *rows {
	m := &rows{dtype: t.DType, shape: t.Shape, elems: 1, data: t.Data, from: t}
	if len(t.Shape) > 1 {
		m.elems = t.Shape[len(t.Shape)-1]
	}
	m.fill = func(dst []byte, i int) error {
		copy(dst, m.data[i*len(dst):])
		return nil
	}
	return m
}

// pick returns units of m in another order, or fewer of them.
func (m *rows) pick(shape []int, from func(i int) int) *rows {
	return &rows{dtype: m.dtype, shape: shape, elems: m.elems, from: m.from,
		fill: func(dst []byte, i int) error { return m.fill(dst, from(i)) }}
}

// numbers returns m in units of one number.
func (m *rows) numbers() *rows {
	if m.elems == 1 {
		return m
	}
	return &rows{dtype: m.dtype, shape: m.shape, elems: 1, data: m.data, from: m.from,
		fill: func(dst []byte, i int) error {
			row := make([]byte, m.unit())
			if err := m.fill(row, i/m.elems); err != nil {
				return err
			}
			copy(dst, row[i%m.elems*len(dst):])
			return nil
		}}
}

// interleave turns heads whose rotary pairs lie half a head apart into heads
// with pairs of neighbours, and split the other way round.
func (m *rows) interleave(heads int) (*rows, error) { return m.pairs(heads, false) }
func (m *rows) split(heads int) (*rows, error)      { return m.pairs(heads, true) }

func (m *rows) pairs(heads int, apart bool) (*rows, error) {
	n := m.count()
	if heads < 1 || n%(2*heads) != 0 {
		return nil, fmt.Errorf("found %d rows, expected an even number for each of %d heads", n, heads)
	}
	width := n / heads
	return m.pick(m.shape, func(i int) int {
		h, d := i/width*width, i%width
		if apart {
			return h + d%(width/2)*2 + d/(width/2)
		}
		return h + d/2 + d%2*(width/2)
	}), nil
}

// every returns every second unit of the second dimension, from the first or
// the second on.
func (m *rows) every(odd int) (*rows, error) {
	if len(m.shape) < 2 || m.shape[1]%2 != 0 {
		return nil, fmt.Errorf("found shape %v, expected an even second dimension", m.shape)
	}
	if len(m.shape) == 2 { // a bias for each expert
		m = m.numbers()
	}
	shape := slices.Clone(m.shape)
	shape[1] /= 2
	return m.pick(shape, func(i int) int { return 2*i + odd }), nil
}

// weave is the inverse of every.
func weave(even, odd *rows) *rows {
	shape := slices.Clone(even.shape)
	shape[1] *= 2
	if len(shape) == 2 {
		even, odd = even.numbers(), odd.numbers()
	}
	return &rows{dtype: even.dtype, shape: shape, elems: even.elems, from: even.from, woven: [2]*rows{even, odd},
		fill: func(dst []byte, i int) error {
			if i%2 == 1 {
				return odd.fill(dst, i/2)
			}
			return even.fill(dst, i/2)
		}}
}

// stack returns several matrices of one shape as one with a dimension more.
func stack(parts []*rows) (*rows, error) {
	first := parts[0]
	n := first.count()
	for _, p := range parts[1:] {
		if p.dtype != first.dtype || !slices.Equal(p.shape, first.shape) {
			return nil, fmt.Errorf("found %s of shape %v, expected %s of shape %v as in expert 0", p.dtype, p.shape, first.dtype, first.shape)
		}
	}
	return &rows{dtype: first.dtype, shape: append([]int{len(parts)}, first.shape...), elems: first.elems, from: first.from,
		fill: func(dst []byte, i int) error { return parts[i/n].fill(dst, i%n) }}, nil
}

// part returns one matrix of a stack.
func (m *rows) part(e int) *rows {
	n := m.count() / m.shape[0]
	p := m.pick(m.shape[1:], func(i int) int { return e*n + i })
	if m.data != nil {
		size := n * m.unit()
		p.data = m.data[e*size : (e+1)*size : (e+1)*size]
	}
	return p
}

// swapped returns a stack of matrices with rows and columns swapped.
func (m *rows) swapped() (*rows, error) {
	if len(m.shape) != 3 || m.dtype.BlockElems() != 1 {
		return nil, fmt.Errorf("found %s of shape %v, expected plain numbers of three dimensions", m.dtype, m.shape)
	}
	in, out, size := m.shape[1], m.shape[2], m.dtype.BlockBytes()
	var at func(row int) []byte // where a row lies
	switch {
	case m.data != nil:
		at = func(row int) []byte { return m.data[row*out*size:] }
	case m.woven[0] != nil && m.woven[0].data != nil && m.woven[1].data != nil:
		at = func(row int) []byte { return m.woven[row%2].data[row/2*out*size:] }
	default:
		return nil, errors.New("does not lie in one piece")
	}
	return &rows{dtype: m.dtype, shape: []int{m.shape[0], out, in}, elems: in, from: m.from,
		fill: func(dst []byte, i int) error {
			e, c := i/out, i%out
			for k := range in {
				copy(dst[k*size:(k+1)*size], at(e*in + k)[c*size:])
			}
			return nil
		}}, nil
}

// floats decodes a unit of a type without blocks.
func floats(dst []float32, dtype graph.DType, src []byte) error {
	le := binary.LittleEndian
	switch dtype {
	case graph.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(src[4*i:]))
		}
	case graph.F64:
		for i := range dst {
			dst[i] = float32(math.Float64frombits(le.Uint64(src[8*i:])))
		}
	case graph.BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(le.Uint16(src[2*i:])) << 16)
		}
	case graph.F16:
		for i := range dst {
			dst[i] = float16.Frombits(le.Uint16(src[2*i:])).Float32()
		}
	case graph.F8_E4M3:
		for i := range dst {
			dst[i] = f8e4m3[src[i]]
		}
	case graph.F8_E5M2: // an f16 without its last byte
		for i := range dst {
			dst[i] = float16.Frombits(uint16(src[i]) << 8).Float32()
		}
	default:
		return &UnsupportedError{What: "type", Name: dtype.String(), Known: []string{"f32", "f16", "bf16", "f64", "f8_e4m3", "f8_e5m2"}}
	}
	return nil
}

// f8e4m3 decodes floats of four exponent and three fraction bits, without
// infinities: the largest exponent is an ordinary one, but for NaN.
var f8e4m3 = func() (table [256]float32) {
	for i := range table {
		exp, frac := i>>3&15, float64(i&7)/8
		x := math.Ldexp(1+frac, exp-7)
		switch {
		case exp == 0:
			x = math.Ldexp(frac, -6)
		case i&0x7f == 0x7f:
			x = math.NaN()
		}
		if i >= 128 {
			x = math.Copysign(x, -1)
		}
		table[i] = float32(x)
	}
	return table
}()

// as returns the numbers of m, each with plus added, as f32, f16 or bf16. To f64
// it is added before they are rounded.
func (m *rows) as(dtype graph.DType, plus float32) *rows {
	if m.dtype == dtype && plus == 0 {
		return m
	}
	return &rows{dtype: dtype, shape: m.shape, elems: m.elems, from: m.from,
		fill: func(dst []byte, i int) error {
			x := make([]float32, m.elems)
			if m.dtype == graph.F64 && plus != 0 {
				return m.shift64(dst, x, dtype, plus, i)
			}
			if err := m.decode(x, i); err != nil {
				return err
			}
			for k := range x {
				x[k] += plus
			}
			putFloats(dst, dtype, x)
			return nil
		}}
}

func (m *rows) shift64(dst []byte, x []float32, dtype graph.DType, plus float32, i int) error {
	raw := make([]byte, m.unit())
	if err := m.fill(raw, i); err != nil {
		return err
	}
	for k := range x {
		x[k] = float32(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*k:])) + float64(plus))
	}
	putFloats(dst, dtype, x)
	return nil
}

// decode returns the numbers of a unit.
func (m *rows) decode(dst []float32, i int) error {
	raw := make([]byte, m.unit())
	if err := m.fill(raw, i); err != nil {
		return err
	}
	return floats(dst, m.dtype, raw)
}

// putFloats encodes numbers as f32, or f16 or bf16 rounded to nearest even.
func putFloats(dst []byte, dtype graph.DType, x []float32) {
	le := binary.LittleEndian
	for k, v := range x {
		switch dtype {
		case graph.F16:
			le.PutUint16(dst[2*k:], float16.Fromfloat32(v).Bits())
		case graph.BF16:
			u := math.Float32bits(v)
			if v == v {
				u += 0x7fff + u>>16&1
			} else {
				u |= 1 << 22 // stays a NaN
			}
			le.PutUint16(dst[2*k:], uint16(u>>16))
		default:
			le.PutUint32(dst[4*k:], math.Float32bits(v))
		}
	}
}

// scaled multiplies the numbers of an f8 matrix by the factor of their tile and
// rounds to bf16, as such checkpoints are unpacked. scale has one number, one
// for each row, or one for each tile of rows and columns.
func (m *rows) scaled(scale *Tensor, tile [2]int) (*rows, error) {
	if len(m.shape) != 2 {
		return nil, fmt.Errorf("found shape %v beside %s, expected two dimensions", m.shape, scale.Name)
	}
	n, k := m.shape[0], m.shape[1]
	s := make([]float32, scale.Elems())
	if err := floats(s, scale.DType, scale.Data); err != nil {
		return nil, err
	}
	up := func(a, b int) int { return (a + b - 1) / b }
	tn, tk := max(n, 1), max(k, 1)
	switch {
	case len(s) == 1:
	case len(s) == n:
		tn = 1
	case tile[0] > 0 && tile[1] > 0 && slices.Equal(scale.Shape, []int{up(n, tile[0]), up(k, tile[1])}):
		tn, tk = tile[0], tile[1]
	default:
		return nil, fmt.Errorf("found %s of shape %v for a matrix of %v, expected one factor, one for each row or one for each tile of %v", scale.Name, scale.Shape, m.shape, tile)
	}
	perRow := up(k, tk)
	return &rows{dtype: graph.BF16, shape: m.shape, elems: k, from: m.from,
		fill: func(dst []byte, i int) error {
			x := make([]float32, k)
			if err := m.decode(x, i); err != nil {
				return err
			}
			for c := range x {
				x[c] *= s[i/tn*perRow+c/tk]
			}
			putFloats(dst, graph.BF16, x)
			return nil
		}}, nil
}

// mxfp4 joins blocks and scales, as gpt-oss has them, to rows of MXFP4 blocks.
// blocks has 16 bytes for 32 numbers, two neighbours in a byte, the first in its
// low half; a block of a row has the scale first, and in a byte's halves numbers
// 16 apart.
func mxfp4(blocks, scales *Tensor) (*rows, error) {
	n := len(blocks.Shape)
	if blocks.DType != graph.U8 || scales.DType != graph.U8 || n < 3 || blocks.Shape[n-1] != 16 || !slices.Equal(blocks.Shape[:n-1], scales.Shape) {
		return nil, fmt.Errorf("found %s %v and %s %v %s, expected u8 [...,16] and u8 of the same shape without 16",
			blocks.DType, blocks.Shape, scales.Name, scales.Shape, scales.DType)
	}
	shape := append(slices.Clone(blocks.Shape[:n-2]), 32*blocks.Shape[n-2])
	per := blocks.Shape[n-2]
	return &rows{dtype: graph.MXFP4, shape: shape, elems: 32 * per, from: blocks,
		fill: func(dst []byte, i int) error {
			for b := range per {
				q := blocks.Data[16*(i*per+b):][:16]
				d := dst[17*b:][:17]
				d[0] = scales.Data[i*per+b]
				for j := range 16 {
					d[1+j] = nibble(q, j) | nibble(q, j+16)<<4
				}
			}
			return nil
		}}, nil
}

// nibble returns number j of bytes that hold two neighbours each.
func nibble(q []byte, j int) byte { return q[j/2] >> (4 * (j & 1)) & 15 }

// unpackMXFP4 is the inverse of mxfp4: the blocks and the scales.
func unpackMXFP4(m *rows) (blocks, scales *rows) {
	n := len(m.shape)
	per := m.shape[n-1] / 32
	shape := append(slices.Clone(m.shape[:n-1]), per)
	make17 := func(i int) ([]byte, error) {
		row := make([]byte, m.unit())
		return row, m.fill(row, i)
	}
	blocks = &rows{dtype: graph.U8, shape: append(slices.Clone(shape), 16), elems: 16 * per, from: m.from,
		fill: func(dst []byte, i int) error {
			row, err := make17(i)
			for b := range per {
				q := row[17*b+1:][:16]
				for j := range 16 {
					k := 2 * j // numbers k and k+1 go into byte j
					lo := q[k%16] >> (k / 16 * 4) & 15
					hi := q[(k+1)%16] >> ((k + 1) / 16 * 4) & 15
					dst[16*b+j] = lo | hi<<4
				}
			}
			return err
		}}
	scales = &rows{dtype: graph.U8, shape: shape, elems: per, from: m.from,
		fill: func(dst []byte, i int) error {
			row, err := make17(i)
			for b := range per {
				dst[b] = row[17*b]
			}
			return err
		}}
	return blocks, scales
}
