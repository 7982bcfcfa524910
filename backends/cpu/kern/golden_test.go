package kern

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
)

// ggufType maps the type numbers of GGUF files.
var ggufType = map[uint32]graph.DType{
	0: graph.F32, 1: graph.F16, 2: graph.Q4_0, 3: graph.Q4_1, 6: graph.Q5_0, 7: graph.Q5_1, 8: graph.Q8_0,
	10: graph.Q2_K, 11: graph.Q3_K, 12: graph.Q4_K, 13: graph.Q5_K, 14: graph.Q6_K, 20: graph.IQ4_NL, 21: graph.IQ3_S,
	23: graph.IQ4_XS, 30: graph.BF16, 34: graph.TQ1_0, 35: graph.TQ2_0, 39: graph.MXFP4,
}

// readTensor finds one matrix in a well-formed GGUF file.
func readTensor(t *testing.T, file []byte, name string) *Mat {
	t.Helper()
	r := bytes.NewReader(file)
	u32 := func() (v uint32) { binary.Read(r, binary.LittleEndian, &v); return }
	u64 := func() (v uint64) { binary.Read(r, binary.LittleEndian, &v); return }
	str := func() string { b := make([]byte, u64()); io.ReadFull(r, b); return string(b) }
	size := []int64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}
	u64()
	nTensors, nKV := u64(), u64()
	align := int64(32)
	var skip func(kind uint32)
	skip = func(kind uint32) {
		switch kind {
		case 8:
			str()
		case 9:
			elem, n := u32(), u64()
			for range n {
				skip(elem)
			}
		default:
			r.Seek(size[kind], io.SeekCurrent)
		}
	}
	for range nKV {
		str()
		skip(u32())
	}
	var found *Mat
	var off uint64
	for range nTensors {
		n := str()
		dims := make([]uint64, u32())
		for i := range dims {
			dims[i] = u64()
		}
		typ, o := u32(), u64()
		if n == name {
			off = o
			found = &Mat{Type: ggufType[typ], K: int(dims[0]), N: int(dims[1])}
		}
	}
	if found == nil {
		t.Fatalf("no tensor %s", name)
	}
	pos, _ := r.Seek(0, io.SeekCurrent)
	start := (pos+align-1)/align*align + int64(off)
	found.Data = file[start:][:found.N*found.rowBytes()]
	return found
}

func TestGoldenDequant(t *testing.T) {
	dirs, _ := filepath.Glob(filepath.Join(shared.Dir(t), "golden", "models", "*", "dequant_sample.bin"))
	if len(dirs) == 0 {
		t.Fatal("the folder of golden models has no dequant_sample.bin")
	}
	for _, sample := range dirs {
		dir := filepath.Dir(sample)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			want, err := os.ReadFile(sample)
			if err != nil {
				t.Fatal(err)
			}
			file, err := os.ReadFile(filepath.Join(dir, "model.gguf"))
			if err != nil {
				t.Fatal(err)
			}
			w := readTensor(t, file, "blk.0.attn_k.weight")
			if !Supported(w.Type) {
				t.Fatalf("type %v not supported", w.Type)
			}
			row := make([]float32, w.K)
			for n := 0; n < len(want)/4/w.K; n++ {
				DequantRow(w.Type, row, w.Data[n*w.rowBytes():])
				for k, v := range row {
					if exp := f32at(want, 4*(n*w.K+k)); math.Float32bits(v) != math.Float32bits(exp) {
						t.Fatalf("%v row %d element %d: got %v, want %v", w.Type, n, k, v, exp)
					}
				}
			}
		})
	}
}
