package loaders

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"graphrun/graph"
)

// HFWriter turns the keys of a GGUF file into a config.json.
type HFWriter struct {
	Config map[string]any // the fields, objects inside as map[string]any

	model *Model
	arch  string
	hf    *HF
	drop  map[string]bool // tensors that the fields say
	notes []string
	err   error
}

// Note keeps a sentence for the person who converts.
func (w *HFWriter) Note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// Has reports whether the file has a key, named without the prefix.
func (w *HFWriter) Has(key string) bool {
	_, ok := w.model.Meta.Value(w.arch + "." + key)
	return ok
}

// Int returns an integer, 0 if the key is absent.
func (w *HFWriter) Int(key string) int {
	n, _, err := w.model.Meta.Int(w.arch + "." + key)
	w.keep(err)
	return int(n)
}

// Float returns a number and whether the key is there. The number is the
// shortest that means the same f32.
func (w *HFWriter) Float(key string) (float64, bool) {
	x, ok, err := w.model.Meta.Float(w.arch + "." + key)
	w.keep(err)
	return shortFloat(x), ok
}

func shortFloat(x float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', -1, 32), 64)
	if err != nil || float32(short) != float32(x) {
		return x
	}
	return short
}

// Text returns a string, "" if the key is absent.
func (w *HFWriter) Text(key string) string {
	s, _, err := w.model.Meta.String(w.arch + "." + key)
	w.keep(err)
	return s
}

// IntAt returns an integer of layer l, whether the key has one for each or one
// for all.
func (w *HFWriter) IntAt(key string, l int) int {
	if v, ok := w.model.Meta.Value(w.arch + "." + key); ok && v.Len() > 0 {
		all, _, err := w.model.Meta.Ints(w.arch + "." + key)
		w.keep(err)
		if l < len(all) {
			return int(all[l])
		}
		return 0
	}
	return w.Int(key)
}

// Bools returns a list, nil if the key is absent.
func (w *HFWriter) Bools(key string) []bool {
	b, _, err := w.model.Meta.Bools(w.arch + "." + key)
	w.keep(err)
	return b
}

// Numbers returns the numbers of an f32 vector, nil if it is absent.
func (w *HFWriter) Numbers(name string) []float32 {
	t, ok := w.model.Tensor(name)
	if !ok || t.DType != graph.F32 {
		return nil
	}
	x := make([]float32, t.Elems())
	w.keep(guardFault(func() error { return floats(x, graph.F32, t.Data) }, w.model.Check))
	return x
}

// HasTensor reports whether the file has a tensor.
func (w *HFWriter) HasTensor(name string) bool { _, ok := w.model.Tensor(name); return ok }

// Drop leaves out a tensor that the fields say.
func (w *HFWriter) Drop(name string) { w.drop[name] = true }

func (w *HFWriter) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

// HFWriteOptions say how a folder is written.
type HFWriteOptions struct {
	// Type gives matrices of a type of blocks another one: f32, f16 or bf16.
	// Without it they are an error, as safetensors files have no such types.
	// Decode decodes a row of blocks.
	Type   graph.DType
	Decode func(t graph.DType, dst []float32, row []byte)
	// Verify looks at the folder, under a temporary name, before it gets its own;
	// its error leaves nothing behind.
	Verify func(dir string) error
	// Shard is the most bytes of one file; 0 is 5 GiB.
	Shard int
}

// WriteHF writes a model as a folder of Hugging Face form: config.json,
// safetensors files and the files of the tokenizer. The folder appears under its
// name complete, or not at all; it must not be there, or be empty. The numbers
// are those of the model, bit for bit, but for matrices that Type rounds. The
// notes tell what the folder cannot say.
func WriteHF(dir string, m *Model, o HFWriteOptions) (notes []string, err error) {
	arch, err := m.Arch()
	if err != nil {
		return nil, err
	}
	h := lookupHF(arch)
	if h == nil {
		return nil, &FormatError{File: m.Path, Field: "key general.architecture", Err: &UnsupportedError{What: "folder of architecture", Name: quoteText(arch), Known: hfArchs()}}
	}
	switch filepath.Base(dir) {
	case ".", "..": // also of ""; a folder that programs work in is not replaced
		return nil, fmt.Errorf("hf: create %q: give the name of a new folder", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("hf: create %s: the folder is not empty; give another name", dir)
	}
	w := &HFWriter{Config: map[string]any{}, model: m, arch: arch, hf: h, drop: map[string]bool{}}
	w.config()
	if w.err != nil {
		return nil, w.err
	}
	if o.Shard == 0 {
		o.Shard = maxShard
	}
	tensors, err := w.tensors(o)
	if err != nil {
		return nil, err
	}
	temp := fmt.Sprintf("%s.%08x.tmp", strings.TrimRight(filepath.Clean(dir), string(filepath.Separator)), rand.Uint32())
	if err := os.Mkdir(temp, 0o777); err != nil {
		return nil, fmt.Errorf("hf: %w", underName(err, dir))
	}
	defer os.RemoveAll(temp)
	if err := writeSafetensors(temp, tensors, o.Shard); err != nil {
		return nil, renamed(err, temp, dir)
	}
	if err := w.tokenizer(temp); err != nil {
		return nil, renamed(err, temp, dir)
	}
	if err := writeJSON(filepath.Join(temp, hfConfigName), w.Config); err != nil {
		return nil, renamed(err, temp, dir)
	}
	if o.Verify != nil {
		if err := o.Verify(temp); err != nil {
			return nil, err
		}
	}
	if err := m.CheckData(); err != nil {
		return nil, err
	}
	if len(entries) == 0 && err == nil {
		os.Remove(dir) // an empty folder, which not every system replaces
	}
	if err := os.Rename(temp, dir); err != nil {
		return nil, fmt.Errorf("hf: %w", underName(err, dir))
	}
	return w.notes, nil
}

// renamed gives an error of the file system the name that the file would have
// had.
func renamed(err error, temp, dir string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("hf: %w; nothing is left behind", &fs.PathError{Op: pe.Op, Path: dir + strings.TrimPrefix(pe.Path, temp), Err: pe.Err})
	}
	return err
}

func hfArchs() []string {
	hfRegistry.RLock()
	defer hfRegistry.RUnlock()
	var names []string
	for name := range hfRegistry.archs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// config fills the fields.
func (w *HFWriter) config() {
	w.Config["model_type"], w.Config["architectures"] = w.hf.Types[0], []string{w.hf.Class}
	for _, f := range w.hf.Fields {
		if v, ok := w.model.Meta.Value(w.arch + "." + f.Key); ok && v.Len() == 0 {
			x := v.Any()
			if y, ok := x.(float32); ok {
				x = shortFloat(float64(y))
			}
			w.Config[f.From[0]] = x
		}
	}
	if embd, ok := w.model.Tensor("token_embd.weight"); ok && len(embd.Shape) == 2 {
		w.Config["vocab_size"] = embd.Shape[0]
	}
	w.Config["tie_word_embeddings"] = !w.HasTensor("output.weight")
	for _, c := range w.hf.Checks {
		if c.Field == "hidden_act" || c.Field == "hidden_activation" {
			w.Config[c.Field] = strings.Trim(c.Want[0], `"`)
		}
	}
	w.Config["torch_dtype"] = map[graph.DType]string{graph.F16: "float16", graph.F32: "float32"}[w.usual()]
	if w.Config["torch_dtype"] == "" {
		w.Config["torch_dtype"] = "bfloat16"
	}
	if w.hf.Write != nil {
		w.hf.Write(w)
	}
}

// usual returns the type that most bytes of plain matrices have.
func (w *HFWriter) usual() graph.DType {
	bytes := map[graph.DType]int{}
	best := graph.BF16
	for _, t := range w.model.Tensors {
		if t.DType.Quantized() || len(t.Shape) < 2 {
			continue
		}
		bytes[t.DType] += t.Size()
		if bytes[t.DType] > bytes[best] {
			best = t.DType
		}
	}
	return best
}
