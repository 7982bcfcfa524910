package ops

import "graphrun/graph"

// IsWeightType reports whether weights may have the type: f32, f16, bf16 or a
// block format of model files.
func IsWeightType(t graph.DType) bool {
	switch t {
	case graph.F32, graph.F16, graph.BF16:
		return true
	case graph.Q8, graph.Q8K:
		return false
	}
	return t.Quantized()
}

func DequantRow(t graph.DType, dst []float32, src []byte) { panic("todo") }
func toF16(x float32) uint16                              { panic("todo") }
