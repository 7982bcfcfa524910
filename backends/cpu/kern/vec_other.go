//go:build !(amd64 && gc && !noasm)

package kern

// VectorsSupported is false: none of these is called.

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

func vecFind(*vecArgs) { panic("kern: no vector kernel") }

func ropeHalf(*ropeArgs) { panic("kern: no vector kernel") }

func ropeAdjacent(*ropeArgs) { panic("kern: no vector kernel") }

func storeF16(*keyArgs) { panic("kern: no vector kernel") }

func storeKeyF16(*keyArgs) { panic("kern: no vector kernel") }
