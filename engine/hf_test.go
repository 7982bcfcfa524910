package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
	"graphrun/loaders"
	"graphrun/quant"
)

// hfFolders are the golden models of Hugging Face form.
var hfFolders = []string{"llama3-tied", "gemma3-4b-like", "gemma4-e2b-like", "gemma4-31b-like", "gemma4-26b-a4b-like"}

// checkGolden compares a model with the logits and tokens beside a folder.
func checkGolden(t *testing.T, m *Model, dir string) {
	t.Helper()
	var g golden
	b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(filepath.Join(dir, "logits_ref64.bin")); err != nil {
		t.Fatal(err)
	}
	for ; len(b) >= 4; b = b[4:] {
		g.logits = append(g.logits, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	s := m.NewSession()
	logits := all(t, s, g.Tokens, 17)
	if d := worst(t, logits, g.logits); d > 1e-3 || d == 0 {
		t.Errorf("%s: logits differ by %.2g from the float64 computation, want less than 1e-3", dir, d)
	}
	last := logits[len(logits)-m.Limits().Vocab:]
	for i, want := range g.Greedy.Tokens {
		if got := largest(last); got != want {
			t.Fatalf("%s: greedy token %d is %d, want %d", dir, i, got, want)
		}
		last = all(t, s, []int32{want}, 1)
	}
}

func largest(x []float32) int32 {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return int32(best)
}

// TestFolders runs the golden folders as they lie.
func TestFolders(t *testing.T) {
	for _, name := range hfFolders {
		for _, backend := range Backends() {
			t.Run(name+"/"+backend, func(t *testing.T) {
				dir := shared.Path(t, "golden", "hf", name)
				m, err := Open(dir, Options{Backend: backend, Threads: 1, KV: graph.F32, TokensOnly: true})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				checkGolden(t, m, dir)
				if r := m.Memory(); r.Made*20 > r.Weights {
					t.Errorf("%d of %d bytes of weights are not used where they lie", r.Made, r.Weights)
				}
				for _, w := range m.Warnings() {
					t.Log(w)
				}
			})
		}
	}
}

// TestFolderWithoutTokenizer: one line, unless only tokens are wanted.
func TestFolderWithoutTokenizer(t *testing.T) {
	_, err := Open(shared.Path(t, "golden", "hf", "llama3-tied"), Options{Threads: 1})
	var none *NoTokenizerError
	if !errors.As(err, &none) {
		t.Errorf("found %v, want a NoTokenizerError", err)
	}
}

// TestFoldersConverted runs the golden folders after they became GGUF files.
func TestFoldersConverted(t *testing.T) {
	for _, name := range hfFolders {
		t.Run(name, func(t *testing.T) {
			dir := shared.Path(t, "golden", "hf", name)
			file := filepath.Join(t.TempDir(), "model.gguf")
			m, err := loaders.OpenHF(dir, loaders.HFOptions{GGUF: true})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			infos := make([]loaders.TensorInfo, len(m.Tensors))
			for i, x := range m.Tensors {
				infos[i] = loaders.TensorInfo{Name: x.Name, DType: x.DType, Shape: x.Shape}
			}
			err = loaders.Create(file, m.GGUFMeta(), infos, func(w io.Writer, i int) error {
				_, err := m.Tensors[i].WriteTo(w)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			g, err := Open(file, Options{Threads: 1, KV: graph.F32, TokensOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			checkGolden(t, g, dir)
			if len(g.Warnings()) > 0 {
				t.Errorf("warnings: %q", g.Warnings())
			}
		})
	}
}

// TestQuantizeFolder: weights quantized while they are loaded are those that the
// converted file would have.
func TestQuantizeFolder(t *testing.T) {
	dir := shared.Path(t, "golden", "hf", "llama3-tied")
	o := Options{Threads: 1, KV: graph.F32, TokensOnly: true, Quantize: graph.Q8_0}
	m, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := m.Memory()
	if r.Made*10 < r.Weights*9 {
		t.Errorf("%d of %d bytes are made, want nearly all", r.Made, r.Weights)
	}
	if text := r.String(); !strings.Contains(text, "made in memory") {
		t.Errorf("the report does not tell what is made:\n%s", text)
	}
	x, _ := m.File.Tensor("blk.0.ffn_up.weight")
	src, err := loaders.OpenSafetensors(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	raw, _ := src.Tensor("model.layers.0.mlp.up_proj.weight")
	want, row := make([]byte, x.Size()), make([]float32, x.Shape[1])
	for i := range x.Shape[0] {
		for k := range row {
			row[k] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw.Data[2*(i*len(row)+k):])) << 16)
		}
		if err := quant.Row(want[i*graph.Q8_0.RowBytes(len(row)):][:graph.Q8_0.RowBytes(len(row))], row, graph.Q8_0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if x.DType != graph.Q8_0 || !bytes.Equal(x.Data, want) {
		t.Errorf("%s is %s, and not what quantizing its rows gives", x.Name, x.DType)
	}
	// A GGUF file is not quantized on the way.
	o.TokensOnly = false
	if _, err := Open(shared.Path(t, "golden", "models", "stories260K-f32", "model.gguf"), o); err == nil || !strings.Contains(err.Error(), "graphrun quantize") {
		t.Errorf("found %v, want an error that names graphrun quantize", err)
	}
}
