package kern

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"graphrun/graph"
)

// TestSpecialScales gives one row of a matrix a scale that is zero, subnormal,
// largest, infinite or NaN. That row must be non-finite where the plain code
// is, and near it otherwise; all others must be as before.
func TestSpecialScales(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, typ := range weightTypes() {
			fields := scaleFields[typ]
			if len(fields) == 0 {
				continue
			}
			const n, k = 40, 1280
			for _, T := range []int{1, 2, 9} {
				x, ldx := randomActs(t, typ, T, k, 3)
				for i, h := range []uint16{0, 0x8000, 0x0001, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00} {
					w := randomMat(t, typ, n, k, uint64(i))
					scratch := make([]byte, ScratchBytes(w, T))
					before, after, want := make([]float32, T*n), make([]float32, T*n), make([]float32, T*n)
					Mul(before, n, w, x, ldx, T, 0, n, scratch)
					row := i * 5 % n
					block := i % (k / typ.BlockElems())
					binary.LittleEndian.PutUint16(w.Data[row*w.rowBytes()+block*typ.BlockBytes()+fields[i%len(fields)]:], h)
					Mul(after, n, w, x, ldx, T, 0, n, scratch)
					mulGeneric(want, n, w, x, ldx, T, row, row+1)
					for j := range after {
						if j%n != row {
							if after[j] != before[j] {
								t.Fatalf("%v T=%d scale %#x in row %d: row %d changed from %v to %v", typ, T, h, row, j%n, before[j], after[j])
							}
							continue
						}
						got, exp := float64(after[j]), float64(want[j])
						if finite(got) != finite(exp) || finite(got) && math.Abs(got-exp) > 1e-4*(1+math.Abs(exp)) {
							t.Fatalf("%v T=%d scale %#x: row %d is %v, want %v", typ, T, h, row, got, exp)
						}
					}
				}
			}
		}
	})
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// TestSpecialActivations checks that activations of zero give zero, and that a
// NaN or an infinity reaches every row of its token and no other token.
func TestSpecialActivations(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, typ := range weightTypes() {
			const n, k, T = 36, 768, 9
			w := randomMat(t, typ, n, k, 2)
			act := ActType(typ)
			ldx := act.RowBytes(k)
			for _, tokens := range []int{1, 3, T} {
				x := make([]byte, tokens*ldx)
				rows := make([][]float32, tokens)
				r := rand.New(rand.NewPCG(1, 9))
				for i := range rows {
					rows[i] = make([]float32, k)
					for j := range rows[i] {
						rows[i][j] = float32(r.NormFloat64())
					}
				}
				clear(rows[0])
				bad := tokens - 1
				if bad > 0 {
					rows[bad][300] = float32(math.NaN())
					if tokens == 3 {
						rows[bad][300] = float32(math.Inf(-1))
					}
				}
				for i, row := range rows {
					if act == graph.F32 {
						putActs(act, x[i*ldx:], row)
					} else {
						QuantizeRow(act, x[i*ldx:(i+1)*ldx], row)
					}
				}
				y := make([]float32, tokens*n)
				Mul(y, n, w, x, ldx, tokens, 0, n, make([]byte, ScratchBytes(w, tokens)))
				for i, v := range y {
					switch token := i / n; {
					case token == 0 && v != 0:
						t.Fatalf("%v, %d tokens: zeros gave %v", typ, tokens, v)
					case token == bad && bad > 0 && finite(float64(v)):
						t.Fatalf("%v, %d tokens: a NaN or infinity gave %v in row %d", typ, tokens, v, i%n)
					case token != bad && !finite(float64(v)):
						t.Fatalf("%v, %d tokens: token %d is %v", typ, tokens, token, v)
					}
				}
			}
		}
	})
}

// FuzzMul compares Mul with the plain code on arbitrary weight bytes.
func FuzzMul(f *testing.F) {
	f.Add(uint8(graph.Q4_0), uint8(3), uint8(2), uint64(1), []byte{1, 2, 3})
	f.Add(uint8(graph.Q4_K), uint8(17), uint8(1), uint64(2), []byte{0xff, 0, 0x7c})
	f.Fuzz(func(t *testing.T, typ, rows, tokens uint8, seed uint64, data []byte) {
		types := weightTypes()
		wt := types[int(typ)%len(types)]
		n, T := int(rows)%40+1, int(tokens)%14+1
		k := wt.BlockElems() * (1 + int(seed%5))
		w := randomMat(t, wt, n, k, seed)
		if wt.BlockElems() > 1 {
			copy(w.Data[int(seed%uint64(len(w.Data))):], data)
		}
		x, ldx := randomActs(t, wt, T, k, seed%1000)
		got, want := make([]float32, T*n), make([]float32, T*n)
		Mul(got, n, w, x, ldx, T, 0, n, make([]byte, ScratchBytes(w, T)))
		mulGeneric(want, n, w, x, ldx, T, 0, n)
		ref := reference(w)
		for i := range want {
			g, e := float64(got[i]), float64(want[i])
			_, mag := ref.dot(i%n, acts(w, x[i/n*ldx:]))
			if mag > 1e34 {
				continue // products may overflow in one order and not in the other
			}
			if finite(g) != finite(e) {
				t.Fatalf("%v N=%d K=%d T=%d: element %d is %v, want %v", wt, n, k, T, i, g, e)
			}
			// Subnormal scales may count as zero.
			if math.Abs(g-e) > 4*tolerance*mag+1e-33 {
				t.Fatalf("%v N=%d K=%d T=%d: element %d is %v, want %v", wt, n, k, T, i, g, e)
			}
		}
	})
}
