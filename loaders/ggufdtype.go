package loaders

import (
	"fmt"
	"strings"

	"graphrun/graph"
)

// ggufTypes maps the tensor type numbers of GGUF files to element types. The
// numbers come from the format's reference program, ggml.
var ggufTypes = map[uint32]graph.DType{
	0:  graph.F32,
	1:  graph.F16,
	2:  graph.Q4_0,
	3:  graph.Q4_1,
	6:  graph.Q5_0,
	7:  graph.Q5_1,
	8:  graph.Q8_0,
	10: graph.Q2_K,
	11: graph.Q3_K,
	12: graph.Q4_K,
	13: graph.Q5_K,
	14: graph.Q6_K,
	20: graph.IQ4_NL,
	21: graph.IQ3_S,
	23: graph.IQ4_XS,
	24: graph.I8,
	25: graph.I16,
	26: graph.I32,
	27: graph.I64,
	28: graph.F64,
	30: graph.BF16,
	34: graph.TQ1_0,
	35: graph.TQ2_0,
	39: graph.MXFP4,
}

// ggufTypeNumbers is ggufTypes the other way round.
var ggufTypeNumbers = func() map[graph.DType]uint32 {
	numbers := make(map[graph.DType]uint32, len(ggufTypes))
	for n, t := range ggufTypes {
		numbers[t] = n
	}
	return numbers
}()

// ggufOtherTypes names the numbers that have a meaning but are not read: types
// without kernels here, and types that the format gave up.
var ggufOtherTypes = map[uint32]string{
	4:  "Q4_2, removed from the format",
	5:  "Q4_3, removed from the format",
	9:  "Q8_1",
	15: "Q8_K",
	16: "IQ2_XXS",
	17: "IQ2_XS",
	18: "IQ3_XXS",
	19: "IQ1_S",
	22: "IQ2_S",
	29: "IQ1_M",
	31: "Q4_0_4_4, a repacked Q4_0 removed from the format",
	32: "Q4_0_4_8, a repacked Q4_0 removed from the format",
	33: "Q4_0_8_8, a repacked Q4_0 removed from the format",
	36: "IQ4_NL_4_4, a repacked IQ4_NL removed from the format",
	37: "IQ4_NL_4_8, a repacked IQ4_NL removed from the format",
	38: "IQ4_NL_8_8, a repacked IQ4_NL removed from the format",
	40: "NVFP4",
}

// TensorTypes returns the element types that a GGUF file can hold here, in a
// fixed order.
func TensorTypes() []graph.DType {
	var types []graph.DType
	for _, t := range graph.DTypes() {
		if _, ok := ggufTypeNumbers[t]; ok {
			types = append(types, t)
		}
	}
	return types
}

// ggufDType returns the element type with the given number in GGUF files, or an
// UnsupportedError that names the number and the types there are.
func ggufDType(number uint32) (graph.DType, error) {
	if t, ok := ggufTypes[number]; ok {
		return t, nil
	}
	name := fmt.Sprint(number)
	if other, ok := ggufOtherTypes[number]; ok {
		name += " (" + other + ")"
	}
	return graph.Invalid, &UnsupportedError{What: "tensor type", Name: name, Known: tensorTypeNames()}
}

// tensorTypeNames lists the supported types in the spelling of GGUF.
func tensorTypeNames() []string {
	var names []string
	for _, t := range TensorTypes() {
		names = append(names, strings.ToUpper(t.String()))
	}
	return names
}
