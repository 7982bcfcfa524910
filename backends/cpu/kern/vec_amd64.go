//go:build amd64 && gc && !noasm

package kern

func vecAdd(a *vecArgs) { vecAddAVX512(a) }

func vecMul(a *vecArgs) { vecMulAVX512(a) }

func vecAddScalar(a *vecArgs) { vecAddScalarAVX512(a) }

func vecScale(a *vecArgs) { vecScaleAVX512(a) }

func vecScaleMul(a *vecArgs) { vecScaleMulAVX512(a) }

func vecSoftcap(a *vecArgs) { vecSoftcapAVX512(a) }

func vecExp(a *vecArgs) { vecExpAVX512(a) }

func vecSiLU(a *vecArgs) { vecSiLUAVX512(a) }

func vecSiLUGate(a *vecArgs) { vecSiLUGateAVX512(a) }

func vecGELU(a *vecArgs) { vecGELUAVX512(a) }

func vecGELUGate(a *vecArgs) { vecGELUGateAVX512(a) }

func vecSwigluOAI(a *vecArgs) { vecSwigluOAIAVX512(a) }

func vecSumSquares(a *vecArgs) { vecSumSquaresAVX512(a) }

func vecMax(a *vecArgs) { vecMaxAVX512(a) }

func vecFind(a *vecArgs) { vecFindAVX512(a) }

func ropeHalf(a *ropeArgs) { ropeHalfAVX512(a) }

func ropeAdjacent(a *ropeArgs) { ropeAdjacentAVX512(a) }

func storeF16(a *keyArgs) { storeF16AVX512(a) }

func storeKeyF16(a *keyArgs) { storeKeyF16AVX512(a) }
