package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"graphrun/archs"
	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/ops"
	"graphrun/quant"
)

func convertCmd() *cobra.Command {
	var f convertFlags
	cmd := &cobra.Command{
		Use:   "convert MODEL OUT",
		Short: "Turn a Hugging Face folder into a GGUF file, or the other way round",
		Long: `convert writes a folder as Hugging Face has them, with config.json, safetensors
files and tokenizer, as one GGUF file; or a GGUF file as such a folder. Which of
the two follows from MODEL.

Numbers are kept bit for bit. --type gives the matrices another type: any type
of blocks for a GGUF file; f32, f16 or bf16 for a folder, which cannot hold
types of blocks, so that a quantized GGUF file needs it. For the usual mixtures
of types see graphrun quantize.

The output appears under its name when it is complete. Converting the same model
again gives the same bytes.`,
		Example: `  graphrun convert ./Llama-3.2-1B llama.gguf
  graphrun convert llama.gguf ./Llama-folder`,
		Args: args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], args[1]) },
	}
	cmd.Flags().StringVar(&f.kind, "type", "", "type of the matrices, e.g. q8_0 or bf16; without it they keep theirs")
	return cmd
}

type convertFlags struct{ kind string }

// convertType reads --type.
func (f *convertFlags) convertType(folder bool) (graph.DType, error) {
	if f.kind == "" {
		return graph.Invalid, nil
	}
	var known []string
	for _, t := range quant.Types() {
		if folder && t.Quantized() {
			continue
		}
		known = append(known, t.String())
		if t.String() == strings.ToLower(f.kind) {
			return t, nil
		}
	}
	what := "a GGUF file"
	if folder {
		what = "a folder"
	}
	return 0, usagef("--type is %q, %s can have %s", f.kind, what, strings.Join(known, ", "))
}

func (f *convertFlags) run(cmd *cobra.Command, in, out string) error {
	in, err := modelPath(cmd, in)
	if err != nil {
		return err
	}
	start := time.Now()
	load := loaders.HFOptions{GGUF: true}
	if isFolder(in) {
		t, err := f.convertType(false)
		if err != nil {
			return err
		}
		if t != graph.Invalid {
			load.Quantize = t
			load.Encode = func(dst []byte, row []float32) error { return quant.Row(dst, row, t, nil) }
		}
	}
	m, err := loaders.OpenModel(in, load)
	if err != nil {
		return err
	}
	defer m.Close()
	// Loading the architecture finds what is missing, before anything is written.
	a, err := archs.Load(m)
	if err != nil {
		return err
	}
	warn := func(notes []string) {
		for _, n := range notes {
			fmt.Fprintln(cmd.ErrOrStderr(), "graphrun: warning:", n)
		}
	}
	warn(m.Notes)
	warn(a.Warnings)
	if m.IsHF() {
		err = convertToGGUF(cmd, m, out)
	} else {
		var t graph.DType
		if t, err = f.convertType(true); err != nil {
			return err
		}
		if err := folderName(out); err != nil {
			return err
		}
		var notes []string
		notes, err = loaders.WriteHF(out, m, loaders.HFWriteOptions{Type: t, Decode: ops.DequantRow,
			Verify: func(dir string) error { return sameModel(a, dir, out) }})
		warn(notes)
	}
	if err != nil {
		return err
	}
	n, err := sizeOf(out)
	if err != nil {
		return err
	}
	took := time.Since(start)
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d tensors, %s, in %s\n", out, len(m.Tensors), bytesText(n), took.Round(time.Millisecond))
	return nil
}

// sameModel reports what a folder, written at dir to appear at out, does not say of a
// model: not every model that a file can describe has fields in a config.json.
func sameModel(a *archs.Model, dir, out string) error {
	unsaid := func(err error) error { // under the name it would have had
		return fmt.Errorf("convert: %s: no config.json can say what this model is; the folder would be refused: %s", a.File, strings.ReplaceAll(err.Error(), dir, out))
	}
	m, err := loaders.OpenHF(dir, loaders.HFOptions{GGUF: true, NoVocab: true})
	if err != nil {
		return unsaid(err)
	}
	defer m.Close()
	b, err := archs.Load(m)
	if err != nil {
		return unsaid(err)
	}
	diff := func(what string, got, want any) error {
		return fmt.Errorf("convert: %s: a config.json cannot say that %s is %v; it would be read as %v", a.File, what, want, got)
	}
	switch {
	case b.Eps != a.Eps:
		return diff("the epsilon of norms", b.Eps, a.Eps)
	case b.ContextLength != a.ContextLength:
		return diff("the context length", b.ContextLength, a.ContextLength)
	case len(b.Layers) != len(a.Layers):
		return diff("the number of layers", len(b.Layers), len(a.Layers))
	}
	for l := range a.Layers {
		x, y := reflect.ValueOf(b.Layers[l]), reflect.ValueOf(a.Layers[l])
		for i := range x.NumField() {
			if got, want := x.Field(i).Interface(), y.Field(i).Interface(); got != want {
				return diff(fmt.Sprintf("%s of layer %d", x.Type().Field(i).Name, l), got, want)
			}
		}
	}
	return nil
}

// isFolder reports whether a MODEL is in the form of Hugging Face folders.
func isFolder(path string) bool {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		_, err := os.Stat(filepath.Join(path, "config.json"))
		return err == nil
	}
	return strings.HasSuffix(path, ".safetensors") || strings.HasSuffix(path, ".json")
}

// convertToGGUF writes one file.
func convertToGGUF(cmd *cobra.Command, m *loaders.Model, out string) error {
	if st, err := os.Stat(out); err == nil && st.IsDir() {
		return &fs.PathError{Op: "create", Path: out, Err: errors.New("is a folder; give the name of a file")}
	}
	if inside(m.Path, out) {
		return &fs.PathError{Op: "create", Path: out, Err: errors.New("lies in the folder that is read, which would then hold two models; give a name elsewhere")}
	}
	for _, file := range m.Files {
		if a, err := os.Stat(file); err == nil {
			if b, err := os.Stat(out); err == nil && os.SameFile(a, b) {
				return &fs.PathError{Op: "create", Path: out, Err: errors.New("is a file of the model; give another name")}
			}
		}
	}
	infos, total := make([]loaders.TensorInfo, len(m.Tensors)), 0
	for i, t := range m.Tensors {
		infos[i] = loaders.TensorInfo{Name: t.Name, DType: t.DType, Shape: t.Shape}
		total += t.Size()
	}
	bar := newProgress(cmd, "MiB", total>>20)
	defer bar.done()
	done, shown := 0, 0
	ctx := cmd.Context()
	err := loaders.Create(out, m.GGUFMeta(), infos, func(w io.Writer, i int) error {
		_, err := m.Tensors[i].WriteTo(stopWriter{ctx, w})
		done += m.Tensors[i].Size()
		if n := done >> 20; n > shown {
			bar.add(n - shown)
			shown = n
		}
		if err == nil && i == len(infos)-1 {
			err = m.CheckData()
		}
		return err
	})
	if err != nil {
		if e := m.CheckData(); e != nil {
			return e
		}
	}
	return err
}

// inside reports whether a file lies in the folder of a model, or in that of its
// safetensors file.
func inside(model, file string) bool {
	if st, err := os.Stat(model); err == nil && !st.IsDir() {
		model = filepath.Dir(model)
	}
	a, err := os.Stat(model)
	if err != nil {
		return false
	}
	b, err := os.Stat(filepath.Dir(file))
	return err == nil && os.SameFile(a, b)
}

// folderName refuses names of files for a folder.
func folderName(out string) error {
	bad := ""
	if st, err := os.Stat(out); err == nil && !st.IsDir() {
		bad = "is a file"
	} else if strings.HasSuffix(out, ".gguf") || strings.HasSuffix(out, ".safetensors") {
		bad = "is the name of a file"
	}
	if bad == "" {
		return nil
	}
	return &fs.PathError{Op: "create", Path: out, Err: errors.New(bad + ", but a GGUF file becomes a folder; give the name of a new one (graphrun quantize and merge write GGUF files)")}
}

// stopWriter stops writing when its context ends.
type stopWriter struct {
	ctx context.Context
	w   io.Writer
}

func (s stopWriter) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// sizeOf returns the bytes of a file, or of all files of a folder.
func sizeOf(path string) (int, error) {
	n := 0
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if err == nil {
			n += int(st.Size())
		}
		return err
	})
	return n, err
}
