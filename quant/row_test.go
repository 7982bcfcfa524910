package quant_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
	"graphrun/ops"
	"graphrun/quant"
)

func gaussian(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func encode(t *testing.T, x []float32, dt graph.DType, w []float32) []byte {
	t.Helper()
	b := make([]byte, dt.RowBytes(len(x)))
	if err := quant.Row(b, x, dt, w); err != nil {
		t.Fatalf("%s: %v", dt, err)
	}
	return b
}

func decode(dt graph.DType, b []byte, n int) []float32 {
	y := make([]float32, n)
	ops.DequantRow(dt, y, b)
	return y
}

// TestEdges: whatever finite numbers a row has, it decodes to finite ones, and
// zeros to zeros.
func TestEdges(t *testing.T) {
	rows := map[string]func(i int) float32{
		"zeros":      func(int) float32 { return 0 },
		"minus zero": func(int) float32 { return float32(math.Copysign(0, -1)) },
		"equal":      func(int) float32 { return 0.37 },
		"negative":   func(int) float32 { return -0.37 },
		"tiny":       func(i int) float32 { return float32(i%5-2) * 1e-42 },
		"small":      func(i int) float32 { return float32(i%5-2) * 1e-7 },
		"huge":       func(i int) float32 { return float32(i%3-1) * 1e38 },
		"one huge":   func(i int) float32 { return map[bool]float32{true: -3.4e38, false: 1}[i == 7] },
		"largest":    func(i int) float32 { return map[bool]float32{true: math.MaxFloat32, false: -math.MaxFloat32}[i%2 == 0] },
		"one":        func(i int) float32 { return map[bool]float32{true: 1, false: 0}[i == 100] },
	}
	weights := map[string][]float32{"none": nil, "zeros": make([]float32, 256), "one": make([]float32, 256), "wide": make([]float32, 256)}
	weights["one"][3] = 1e30
	for i := range weights["wide"] {
		weights["wide"][i] = float32(math.Exp(float64(i%40) - 20))
	}
	for _, dt := range quant.Types() {
		for name, at := range rows {
			for wname, w := range weights {
				x := make([]float32, 256)
				for i := range x {
					x[i] = at(i)
				}
				y := decode(dt, encode(t, x, dt, w), 256)
				for i, v := range y {
					if v-v != 0 || x[i] == 0 && name == "zeros" && v != 0 {
						t.Fatalf("%s, row %q, weights %q: element %d: %v became %v", dt, name, wname, i, x[i], v)
					}
				}
			}
		}
	}
}

// TestRefused: wrong arguments are errors.
func TestRefused(t *testing.T) {
	x := gaussian(256, 1)
	bad := append([]float32(nil), x...)
	bad[77] = float32(math.Inf(-1))
	w := make([]float32, 256)
	w[5] = float32(math.NaN())
	dst := make([]byte, 4096)
	var unsupported *loaders.UnsupportedError
	if err := quant.Row(dst, x, graph.I8, nil); !errors.As(err, &unsupported) || len(unsupported.Known) != len(quant.Types()) {
		t.Errorf("I8: %v", err)
	}
	for _, dt := range quant.Types() {
		n := dt.RowBytes(256)
		var nonFinite *quant.NonFiniteError
		if err := quant.Row(dst[:n], bad, dt, nil); !errors.As(err, &nonFinite) || nonFinite.Index != 77 {
			t.Errorf("%s: an infinity: %v", dt, err)
		}
		if quant.Row(dst[:n+1], x, dt, nil) == nil {
			t.Errorf("%s: a byte too many is fine", dt)
		}
		if quant.Row(dst[:n], x, dt, w[:100]) == nil {
			t.Errorf("%s: weights of another length are fine", dt)
		}
		if !dt.Quantized() {
			continue
		}
		if quant.Row(dst[:n], x, dt, w) == nil {
			t.Errorf("%s: a weight that is NaN is fine", dt)
		}
		if quant.Row(dst[:n], x[:33], dt, nil) == nil {
			t.Errorf("%s: a row of 33 is fine", dt)
		}
	}
}

// TestSameAsReference: the simple types have the bytes of the reference program.
func TestSameAsReference(t *testing.T) {
	from, err := loaders.Open(filepath.Join(shared.Path(t, "golden", "models"), "stories260K-f32", "model.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, name := range []string{"stories260K-f16", "stories260K-q8_0", "stories260K-q4_0"} {
		path := filepath.Join(shared.Path(t, "golden", "models"), name, "model.gguf")
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		want, err := loaders.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		compared := 0
		for _, w := range want.Tensors {
			x, ok := from.Tensor(w.Name)
			if !ok || len(w.Shape) < 2 || w.DType == graph.Q6_K {
				continue
			}
			row := make([]float32, w.Shape[1])
			n := w.DType.RowBytes(len(row))
			for r := range w.Shape[0] {
				ops.DequantRow(graph.F32, row, x.Data[4*r*len(row):])
				got := encode(t, row, w.DType, nil)
				for i := range got {
					if got[i] != w.Data[r*n+i] {
						t.Fatalf("%s: %s row %d byte %d: %#x, the reference has %#x", name, w.Name, r, i, got[i], w.Data[r*n+i])
					}
				}
			}
			compared++
		}
		if compared < 20 {
			t.Errorf("%s: only %d matrices compared", name, compared)
		}
	}
}

// TestSameBytesOnGaussian: the bytes of 65536 Gaussian numbers are those that
// llama.cpp 0.5.0 (ggml_quantize_chunk, rows of 256) writes, as sums.
func TestSameBytesOnGaussian(t *testing.T) {
	x := gaussian(1<<16, 5)
	for _, c := range []struct {
		t   graph.DType
		sum string
	}{
		{graph.Q8_0, "33ed36330cfcb261d21b65b035a7201a1a6b2076975c4b8c658cdacbe1a8641a"},
		{graph.Q4_0, "8f89d907dc883c70d99169b59b84a16c9cb6fb0fd55df2761e7a2395bd81c62b"},
		{graph.Q4_1, "11fd04524400e15833655589547284407e2838f4892f45145345d1ae9fe6d377"},
		{graph.Q5_0, "800bcac4a714ab6b188e5d8aa6fc405700dfbdaeef530bde127f89379d731330"},
		{graph.Q5_1, "1f0e4455bae074bc8832a48db8c45bcca4f43645cf72076e2fa999871544046b"},
		{graph.F16, "a98e625ca67ffcec168d9921f62b7c57a341a3c20b0eb65bbd6723f8d8658800"},
		{graph.BF16, "2efc0156ac394b5197d04cc438ff0261a7fbf23d5d7f2609d605604f224c53bc"},
	} {
		if got := fmt.Sprintf("%x", sha256.Sum256(encode(t, x, c.t, nil))); got != c.sum {
			t.Errorf("%s: SHA-256 %s, the reference has %s", c.t, got, c.sum)
		}
	}
}

// TestWeights: weights lower the weighted error.
func TestWeights(t *testing.T) {
	const n = 256 * 64
	x, w := gaussian(n, 3), make([]float32, n)
	for i, v := range gaussian(n, 4) {
		w[i] = float32(math.Exp(2 * float64(v)))
	}
	for _, dt := range quant.Types() {
		if !dt.Quantized() || dt == graph.Q8_0 || dt == graph.MXFP4 {
			continue
		}
		with, without := weighted(x, decode(dt, encode(t, x, dt, w), n), w), weighted(x, decode(dt, encode(t, x, dt, nil), n), w)
		t.Logf("%s: %.5f with weights, %.5f without", dt, with, without)
		if !(with < 0.97*without) {
			t.Errorf("%s: error %v with weights, %v without", dt, with, without)
		}
	}
}

// weighted returns sqrt(Σw(x-y)²/Σw).
func weighted(x, y, w []float32) float64 {
	sum, sw := 0.0, 0.0
	for i := range x {
		d, k := float64(x[i])-float64(y[i]), 1.0
		if w != nil {
			k = float64(w[i])
		}
		sum += k * d * d
		sw += k
	}
	return math.Sqrt(sum / sw)
}

// TestNoAllocation: a row costs none.
func TestNoAllocation(t *testing.T) {
	x, w := gaussian(512, 5), gaussian(512, 6)
	for i := range w {
		w[i] *= w[i]
	}
	for _, dt := range quant.Types() {
		b := make([]byte, dt.RowBytes(len(x)))
		if n := testing.AllocsPerRun(10, func() {
			if err := quant.Row(b, x, dt, w); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per row", dt, n)
		}
	}
}

// TestRounding: f16 and bf16 are the nearest ones, also at the ends.
func TestRounding(t *testing.T) {
	for h := range uint32(1 << 16) {
		for _, dt := range []graph.DType{graph.F16, graph.BF16} {
			raw := []byte{byte(h), byte(h >> 8)}
			v := decode(dt, raw, 1)[0]
			if v-v != 0 {
				continue
			}
			if got := encode(t, []float32{v}, dt, nil); got[0] != raw[0] || got[1] != raw[1] {
				t.Fatalf("%s %#04x = %v became %#x", dt, h, v, got)
			}
			// The middle to the next one goes to the even one, a bit more up.
			next := decode(dt, []byte{byte(h + 1), byte((h + 1) >> 8)}, 1)[0]
			if h&0x7fff == 0x7fff || next-next != 0 || (v < 0) != (next < 0) {
				continue
			}
			mid := float32((float64(v) + float64(next)) / 2)
			want := raw
			if h&1 == 1 {
				want = []byte{byte(h + 1), byte((h + 1) >> 8)}
			}
			if got := encode(t, []float32{mid}, dt, nil); got[0] != want[0] || got[1] != want[1] {
				t.Fatalf("%s: middle %v after %#04x became %#x, want %#x", dt, mid, h, got, want)
			}
		}
	}
}

// TestLimit: a row of numbers as large as Limit comes back about as large.
func TestLimit(t *testing.T) {
	for _, dt := range quant.Types() {
		limit := quant.Limit(dt)
		if dt == graph.F32 || dt == graph.BF16 {
			continue
		}
		for name, sign := range map[string]func(i int) float32{
			"positive": func(int) float32 { return 1 }, "negative": func(int) float32 { return -1 }, "both": func(i int) float32 { return float32(1 - i%2*2) },
		} {
			x := make([]float32, 256)
			for i := range x {
				x[i] = sign(i) * limit
			}
			for i, y := range decode(dt, encode(t, x, dt, nil), 256) {
				if !(math.Abs(float64(y)/float64(x[i])-1) < 0.2) {
					t.Errorf("%s, %s: %v became %v", dt, name, x[i], y)
					break
				}
			}
		}
	}
}
