//go:build !((amd64 || arm64) && gc && !noasm)

package kern

// VectorsSupported is false: only the last three are called.

func vecAdd(*vecArgs) { panic("kern: no vector kernel") }

func vecMul(*vecArgs) { panic("kern: no vector kernel") }

func vecAddScalar(*vecArgs) { panic("kern: no vector kernel") }

func vecScale(*vecArgs) { panic("kern: no vector kernel") }

func vecScaleMul(*vecArgs) { panic("kern: no vector kernel") }

func vecSoftcap(*vecArgs) { panic("kern: no vector kernel") }

func vecExp(*vecArgs) { panic("kern: no vector kernel") }

func vecSiLU(*vecArgs) { panic("kern: no vector kernel") }

func vecSiLUGate(*vecArgs) { panic("kern: no vector kernel") }

func vecGELU(*vecArgs) { panic("kern: no vector kernel") }

func vecGELUGate(*vecArgs) { panic("kern: no vector kernel") }

func vecSwigluOAI(*vecArgs) { panic("kern: no vector kernel") }

func vecSumSquares(*vecArgs) { panic("kern: no vector kernel") }

func vecMax(*vecArgs) { panic("kern: no vector kernel") }

func vecLargest(*vecArgs) { panic("kern: no vector kernel") }

func ropeHalf(*ropeArgs) { panic("kern: no vector kernel") }

func ropeAdjacent(*ropeArgs) { panic("kern: no vector kernel") }

func find(x []float32, c float32) int { return findGeneric(x, c) }

func storeF16(dst []byte, x []float32) { storeF16Generic(dst, x, 2) }

func storeKeyF16(dst []byte, x []float32) { storeF16Generic(dst, x, 32) }
