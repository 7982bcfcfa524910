package loaders

import (
	"fmt"

	"graphrun/graph"
)

// CheckFinite reads all weights and reports the first that no computation
// survives, a NaN or an infinity: in a block's scale for quantized types, in the
// number itself for floats. The error names the tensor and the block.
func (m *Model) CheckFinite() error {
	return guardFault(func() error {
		for _, t := range m.Tensors {
			data, err := t.Load()
			if err != nil {
				return err
			}
			if i, ok := firstNonFinite(t.DType, data); ok {
				err := fmt.Errorf("block %d of %d (%s) has a scale that is not finite", i, len(data)/t.DType.BlockBytes(), t.DType)
				if !t.DType.Quantized() {
					err = fmt.Errorf("element %d of %d (%s) is not finite", i, t.Elems(), t.DType)
				}
				return &TensorError{File: t.File, Name: t.Name, Err: err}
			}
		}
		return m.Check()
	}, m.Check)
}

// scaleOffsets says where in a block its f16 scales lie, two bytes each.
var scaleOffsets = map[graph.DType][]int{
	graph.F16:    {0},
	graph.Q8_0:   {0},
	graph.Q4_0:   {0},
	graph.Q4_1:   {0, 2},
	graph.Q5_0:   {0},
	graph.Q5_1:   {0, 2},
	graph.Q2_K:   {80, 82},
	graph.Q3_K:   {108},
	graph.Q4_K:   {0, 2},
	graph.Q5_K:   {0, 2},
	graph.Q6_K:   {208},
	graph.IQ4_NL: {0},
	graph.IQ4_XS: {0},
	graph.IQ3_S:  {0},
	graph.TQ1_0:  {52},
	graph.TQ2_0:  {64},
}

// firstNonFinite returns the index of the first block of data with a scale that
// is NaN or infinite: one whose exponent bits are all set.
func firstNonFinite(dtype graph.DType, data []byte) (block int, found bool) {
	offsets, mask := scaleOffsets[dtype], byte(0x7c) // high byte of an f16
	size := dtype.BlockBytes()
	switch dtype {
	case graph.MXFP4: // the scale is one byte, an exponent; 255 is NaN
		for i := 0; i < len(data); i += size {
			if data[i] == 0xff {
				return i / size, true
			}
		}
		return 0, false
	case graph.F32, graph.BF16, graph.F64:
		// Eight (eleven) exponent bits: seven in the last byte, the rest above.
		second := byte(0x80)
		if dtype == graph.F64 {
			second = 0xf0
		}
		for i := size; i <= len(data); i += size {
			if data[i-1]&0x7f == 0x7f && data[i-2]&second == second {
				return i/size - 1, true
			}
		}
		return 0, false
	}
	for i := 0; i < len(data); i += size {
		for _, at := range offsets {
			if data[i+at+1]&mask == mask {
				return i / size, true
			}
		}
	}
	return 0, false
}
