package loaders

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"graphrun/graph"
)

// HFOptions say how a folder is opened. The zero value is for running it.
type HFOptions struct {
	// GGUF gives every tensor the form that GGUF files have, as converting needs.
	// Otherwise rows stay in the folder's order where the graph can say so.
	GGUF bool
	// Quantize gives the matrices a type of blocks, which Encode writes, a row at
	// a time, when a tensor is loaded. Matrices that have blocks, or rows that do
	// not divide, stay as they are.
	Quantize graph.DType
	Encode   func(dst []byte, row []float32) error
	// NoVocab leaves out the tokenizer.
	NoVocab bool
	Opening
}

// ErrNoConfig says that weights lie in a folder without config.json.
var ErrNoConfig = errors.New("folder holds no config.json, without which its weights say nothing of the model")

// OpenModel opens the model at path, a GGUF file as Open does, or a folder of
// Hugging Face form as OpenHF does: a folder that holds config.json and
// safetensors files, or one of these files.
func OpenModel(path string, o HFOptions) (*Model, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("loaders: %w", err)
	case !st.IsDir() && (strings.HasSuffix(path, ".safetensors") || strings.HasSuffix(path, safeIndexName)):
		return openHF(filepath.Dir(path), path, o)
	case !st.IsDir():
		return openGGUF(path, o.Opening)
	}
	gguf, _ := filepath.Glob(filepath.Join(escapeGlob(path), "*.gguf"))
	safe, _ := filepath.Glob(filepath.Join(escapeGlob(path), "*.safetensors"))
	config := isFile(filepath.Join(path, hfConfigName))
	switch {
	case len(gguf) > 0 && len(safe) > 0 && config:
		return nil, &FormatError{Format: hf, File: path, Err: fmt.Errorf("folder holds two models, %s and %s; name one of them", filepath.Base(safe[0]), filepath.Base(gguf[0]))}
	case config && len(gguf) == 0, len(safe) > 0 && len(gguf) == 0, isFile(filepath.Join(path, safeIndexName)):
		return OpenHF(path, o)
	}
	return openGGUF(path, o.Opening)
}

// escapeGlob returns a path that a pattern matches literally.
func escapeGlob(path string) string {
	if os.PathSeparator == '\\' { // where it is no escape
		return path
	}
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// OpenHF opens a folder of Hugging Face form: config.json, safetensors files,
// and, if they are there, the files of the tokenizer. The model has the keys
// and the tensor names of a GGUF file. Matrices in F32, F16 and BF16 are used
// where they lie in the mapped files; Load makes what lies differently there.
//
// An unknown model_type, a missing field, a tensor of the decoder that the
// architecture has no place for, and a quantization that is not read are errors.
func OpenHF(dir string, o HFOptions) (*Model, error) { return openHF(dir, dir, o) }

// openHF opens a folder whose weights are at path, the folder itself or a file
// in it.
func openHF(dir, path string, o HFOptions) (_ *Model, err error) {
	c, err := ReadHFConfig(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &FormatError{Format: hf, File: dir, Err: ErrNoConfig}
	}
	if err != nil {
		return nil, err
	}
	arch, err := Detect(c)
	if err != nil {
		return nil, err
	}
	o.mark("detect")
	h := lookupHF(arch)
	if path == dir && !isFile(filepath.Join(dir, safeFileName)) && !isFile(filepath.Join(dir, safeIndexName)) {
		return nil, noWeights(dir)
	}
	src, err := openSafetensors(path, o.Opening)
	if err != nil {
		return nil, err
	}
	f := &hfFolder{dir: dir, arch: arch, hf: h, o: o, src: src, targets: map[string]*hfTarget{}}
	m := &Model{Path: path, Files: src.Files, Format: "safetensors", Size: src.Size, index: map[string]*Tensor{}, mappings: src.mappings}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := f.sort(); err != nil {
		return nil, err
	}
	r, err := c.readKeys(arch, h, !o.GGUF, func(name string) bool { return f.targets[name] != nil })
	if err != nil {
		return nil, err
	}
	m.Meta, m.config, m.fields = r.Meta, c, r.from
	if err := f.build(m, r); err != nil {
		return nil, err
	}
	m.source = f.sourceName
	m.Notes = append(m.Notes, r.notes...)
	m.Notes = append(m.Notes, f.notes...)
	o.mark("parse")
	if o.NoVocab {
		return m, nil
	}
	err = f.vocabulary(m)
	o.mark("tokenizer")
	return m, err
}

// noWeights says which weights are there instead of safetensors.
func noWeights(dir string) error {
	err := errNoWeights
	for _, other := range []string{"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack", "consolidated.00.pth"} {
		if isFile(filepath.Join(dir, other)) {
			err = fmt.Errorf("%w; %s is not read: save the model as safetensors", errNoWeights, other)
		}
	}
	return &FormatError{Format: hf, File: dir, Err: err}
}

// hfFolder sorts the tensors of a folder by what they are in a GGUF file.
type hfFolder struct {
	dir, arch string
	hf        *HF
	o         HFOptions
	src       *Model
	prefix    string
	targets   map[string]*hfTarget // by GGUF name
	notes     []string
	unfit     int // matrices that could not be quantized
}

// hfTarget is a tensor of a GGUF file with the tensors it is made of.
type hfTarget struct {
	entry *HFTensor
	name  string   // GGUF
	from  string   // name in the folder
	parts []hfPart // one, or one for each expert
}

// hfPart is a tensor, or a packed pair.
type hfPart struct {
	plain, blocks, scales *Tensor // plain, or blocks with scales
	scale                 *Tensor // factors of an f8 matrix
}

// hfNames is a name with its numbers replaced: layers.N., experts.E.
type hfNames struct {
	pattern       string
	layer, expert int // -1 without
}

func splitHFName(name string) hfNames {
	n := hfNames{layer: -1, expert: -1}
	words := strings.Split(name, ".")
	for i := 1; i < len(words); i++ {
		num, err := strconv.Atoi(words[i])
		if err != nil || num < 0 || num > 1<<16 || words[i] != strconv.Itoa(num) {
			continue
		}
		switch {
		case words[i-1] == "layers" && n.layer < 0:
			n.layer, words[i] = num, "N"
		case words[i-1] == "experts" && n.expert < 0:
			n.expert, words[i] = num, "E"
		}
	}
	n.pattern = strings.Join(words, ".")
	return n
}

// fill puts the numbers back.
func (n hfNames) fill(pattern string) string {
	pattern = strings.Replace(pattern, "layers.N.", "layers."+strconv.Itoa(n.layer)+".", 1)
	pattern = strings.Replace(pattern, "blk.N.", "blk."+strconv.Itoa(n.layer)+".", 1)
	if n.expert >= 0 {
		pattern = strings.Replace(pattern, "experts.E.", "experts."+strconv.Itoa(n.expert)+".", 1)
	}
	return pattern
}

// findPrefix settles what stands before the names of the decoder's tensors.
func (f *hfFolder) findPrefix() error {
	const embd = "embed_tokens.weight"
	var found []string
	for _, p := range f.hf.Prefixes {
		if _, ok := f.src.index[p+embd]; ok {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 0:
		var tried []string
		for _, p := range f.hf.Prefixes {
			tried = append(tried, p+embd)
		}
		var have []string
		for _, t := range f.src.Tensors[:min(3, len(f.src.Tensors))] {
			have = append(have, quoteName(t.Name))
		}
		return &FormatError{Format: hf, File: f.src.Path, Err: fmt.Errorf("found none of the tensors %s, one of which a model of %s has; its first tensors are %s",
			strings.Join(tried, ", "), f.arch, strings.Join(have, ", "))}
	case len(found) > 1:
		return &FormatError{Format: hf, File: f.src.Path, Err: fmt.Errorf("found two decoders, %s and %s", found[0]+embd, found[1]+embd)}
	}
	f.prefix = found[0]
	return nil
}

// Endings of the second tensor of a pair.
var (
	hfScales = []string{"_scale_inv", "_scale"}
	hfIgnore = []string{".input_scale", ".activation_scale", ".input_activation_scale"} // of f8: bounds of activations, which are not rounded here
)

// sort gives each tensor of the folder its place.
func (f *hfFolder) sort() error {
	if err := f.findPrefix(); err != nil {
		return err
	}
	entries := map[string][]*HFTensor{}
	for i := range f.hf.Tensors {
		e := &f.hf.Tensors[i]
		entries[e.Name] = append(entries[e.Name], e)
		if stem, ok := strings.CutSuffix(e.Name, ".weight"); ok {
			bias := *e
			bias.Name, bias.GGUF = stem+".bias", strings.TrimSuffix(e.GGUF, ".weight")+".bias"
			entries[bias.Name] = append(entries[bias.Name], &bias)
		}
	}
	skipped := map[string]int{}
	var unknown []string
	for _, t := range f.src.Tensors {
		if f.place(t, entries) {
			continue
		}
		part := f.skip(t.Name)
		if part == "" && f.drop(t.Name) {
			continue
		}
		if part == "" {
			unknown = append(unknown, quoteName(t.Name))
			continue
		}
		skipped[part]++
	}
	if len(unknown) > 0 {
		const most = 8
		more := ""
		if n := len(unknown); n > most {
			more = fmt.Sprintf(" and %d more", n-most)
			unknown = unknown[:most]
		}
		return &FormatError{Format: hf, File: f.src.Path, Err: fmt.Errorf("%s has no place for tensors %s%s; leaving them out could change the result",
			f.arch, strings.Join(unknown, ", "), more)}
	}
	for _, part := range f.hf.Skip {
		if n := skipped[part]; n > 0 {
			f.notes = append(f.notes, fmt.Sprintf("%d tensors of %s are not used: only text is computed", n, strings.TrimSuffix(part, ".")))
		}
	}
	return nil
}

func (f *hfFolder) skip(name string) string {
	for _, part := range f.hf.Skip {
		if strings.HasPrefix(name, part) || strings.HasPrefix(name, "model."+part) {
			return part
		}
	}
	return ""
}

func (f *hfFolder) drop(name string) bool {
	return slices.ContainsFunc(append(hfIgnore, f.hf.Drop...), func(end string) bool { return strings.HasSuffix(name, end) })
}

// place adds a tensor to the targets it belongs to.
func (f *hfFolder) place(t *Tensor, entries map[string][]*HFTensor) bool {
	name, inner := strings.CutPrefix(t.Name, f.prefix)
	if outer, ok := strings.CutPrefix(t.Name, "language_model."); ok && !inner {
		name = outer
	}
	n := splitHFName(name)
	set := func(p *hfPart) { p.plain = t }
	found := entries[n.pattern]
	if found == nil {
		if base, ok := strings.CutSuffix(n.pattern, "_blocks"); ok {
			found, set = entries[base], func(p *hfPart) { p.blocks = t }
		} else if base, ok := strings.CutSuffix(n.pattern, "_scales"); ok {
			found, set = entries[base], func(p *hfPart) { p.scales = t }
		} else {
			for _, end := range hfScales {
				if base, ok := strings.CutSuffix(n.pattern, end); ok && found == nil {
					found, set = entries[base], func(p *hfPart) { p.scale = t }
				}
			}
		}
	}
	ok := false
	for _, e := range found {
		if !e.Outer && !inner {
			continue
		}
		gguf := n.fill(e.GGUF)
		tg := f.targets[gguf]
		if tg == nil {
			tg = &hfTarget{entry: e, name: gguf, from: t.Name}
			f.targets[gguf] = tg
		} else if tg.entry != e { // another spelling of the same tensor
			continue
		}
		i := max(n.expert, 0)
		for len(tg.parts) <= i {
			tg.parts = append(tg.parts, hfPart{})
		}
		set(&tg.parts[i])
		ok = true
	}
	return ok
}

// sourceName returns the name in the folder of a tensor that a GGUF file would
// have.
func (f *hfFolder) sourceName(gguf string) string {
	if t := f.targets[gguf]; t != nil {
		return t.from
	}
	words := strings.SplitN(gguf, ".", 3)
	n := hfNames{layer: -1, expert: -1}
	pattern := gguf
	if len(words) == 3 && words[0] == "blk" {
		if num, err := strconv.Atoi(words[1]); err == nil {
			n.layer, pattern = num, "blk.N."+words[2]
		}
	}
	for _, e := range f.hf.Tensors {
		for _, end := range []string{".weight", ".bias"} {
			g := strings.TrimSuffix(e.GGUF, ".weight") + end
			if g == pattern || e.GGUF == pattern {
				name := n.fill(strings.TrimSuffix(e.Name, ".weight"))
				if strings.HasSuffix(e.Name, ".weight") {
					name += end
				}
				if e.Outer {
					return name
				}
				return f.prefix + name
			}
		}
	}
	return ""
}
