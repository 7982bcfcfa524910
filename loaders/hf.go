package loaders

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// HF says, as data of an architecture, how folders of Hugging Face form hold
// its models: the fields of config.json and the names and rows of the tensors.
// RegisterHF makes it known.
type HF struct {
	// Types lists the values of model_type. Those in Wrapped have the fields of
	// the decoder in text_config.
	Types   []string
	Wrapped []string
	// Class is the entry of "architectures" that a written folder gets.
	Class string
	// Prefixes lists what may stand before the names of the decoder's tensors.
	Prefixes []string
	// Skip lists beginnings of names that belong to parts which are not text.
	Skip []string
	// Drop lists ends of names that carry nothing a file needs.
	Drop []string
	// Fields maps fields of config.json to keys.
	Fields []HFField
	// Checks lists fields that change the computation and must have a value that
	// the architecture computes.
	Checks []HFCheck
	// Tensors maps names of tensors. Of two with the same Name, or the same
	// GGUF, the first that is there counts.
	Tensors []HFTensor
	// Vocab is the family of vocabularies with merges over characters, where it
	// is not "llama".
	Vocab string
	// PlainOutput is that attention_bias says nothing of the output's projection.
	PlainOutput bool
	// Tied is what an absent tie_word_embeddings means.
	Tied bool
	// NormPlus is added to the weights of norms, whose names end in norm.weight.
	NormPlus float32
	// Pairs is the key that says how rotary pairs lie in a head, "" where files
	// of both forms agree: folders have them half a head apart, which the key
	// says as "half", while GGUF files have the rows in another order.
	Pairs string
	// Read completes the keys after Fields; Write the config.json.
	Read  func(r *HFReader)
	Write func(w *HFWriter)
}

// HFField is a number, word or switch that is the same in both forms.
type HFField struct {
	Key string // without the architecture's prefix
	// From lists the names of the field, of which those that are there agree.
	// The first is written.
	From []string
	Type ValueType // u32, f32, bool or string
	// Default is the value that an absent field means, where the definition of
	// the model type says one; using it gives a warning. Optional is that the
	// key may be absent too.
	Default  any
	Optional bool
}

// HFCheck is a condition on a field. An absent field is fine.
type HFCheck struct {
	Field string
	Want  []string // JSON of the values that are accepted
	Why   string   // what another value would mean
}

// HFTensor is a tensor, or one of each layer: N in a name stands for the number
// of the layer, E for that of an expert. Names that end in .weight stand for
// the .bias beside it, too.
type HFTensor struct {
	Name string // without prefix
	GGUF string
	// Outer is that the name has no prefix, or only that of the language model.
	Outer bool
	// Heads is the key of the number of heads of a matrix whose rows are
	// rotated, where Pairs is set.
	Heads string
	Form  HFForm
}

// HFForm is how the numbers of a tensor lie in a folder.
type HFForm uint8

// The forms: as in GGUF; one tensor per expert; even or odd rows of a tensor of
// all experts, which lies with rows and columns swapped unless it is packed;
// such a tensor whole.
const (
	Plain HFForm = iota
	PerExpert
	EvenRows
	OddRows
	Swapped
)

var hfRegistry = struct {
	sync.RWMutex
	archs map[string]*HF    // by architecture
	types map[string]string // architecture by model_type
}{archs: map[string]*HF{}, types: map[string]string{}}

// RegisterHF makes folders of an architecture known. It panics when a
// model_type is taken: a programming error, seen at start.
func RegisterHF(arch string, h *HF) {
	hfRegistry.Lock()
	defer hfRegistry.Unlock()
	for _, t := range h.Types {
		if other, ok := hfRegistry.types[t]; ok {
			panic(fmt.Sprintf("loaders: model_type %s of %s is taken by %s", t, arch, other))
		}
		hfRegistry.types[t] = arch
	}
	hfRegistry.archs[arch] = h
}

func lookupHF(arch string) *HF {
	hfRegistry.RLock()
	defer hfRegistry.RUnlock()
	return hfRegistry.archs[arch]
}

// HFTypes returns the known values of model_type, sorted.
func HFTypes() []string {
	hfRegistry.RLock()
	defer hfRegistry.RUnlock()
	return slices.Sorted(maps.Keys(hfRegistry.types))
}

// Detect returns the architecture of a config.json by its model_type. An
// unknown one is an error that names the closest known.
func Detect(c *HFConfig) (arch string, err error) {
	hfRegistry.RLock()
	arch = hfRegistry.types[c.ModelType]
	hfRegistry.RUnlock()
	if arch == "" {
		return "", c.unknownType()
	}
	return arch, nil
}

// DetectFile returns the architecture that a config.json names; path is the
// file or its folder. It looks at nothing but model_type; ReadHFConfig checks
// the rest.
func DetectFile(path string) (arch string, err error) {
	buf := detectBuffers.Get().(*[16 << 10]byte)
	defer detectBuffers.Put(buf)
	data, path, err := readHFConfig(path, buf[:])
	if err != nil {
		return "", err
	}
	var word []byte
	s := &jsonScanner{data: data}
	s.object(func(key string) {
		if v := s.value(); key == "model_type" && s.err == nil {
			word, s.err = v, errFound
		}
	})
	if s.err != errFound { // the whole reading says what is wrong
		c, err := ParseHFConfig(path, data)
		if err != nil {
			return "", err
		}
		return Detect(c)
	}
	c := HFConfig{Path: path, fields: map[string][]byte{"model_type": word}}
	if c.ModelType, _, err = c.Text("/model_type"); err != nil {
		return "", err
	}
	return Detect(&c)
}

// detectBuffers holds what configs are read into.
var detectBuffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// errFound ends a scan that has what it looked for.
var errFound = errors.New("found")

func (c *HFConfig) unknownType() error {
	const field = "model_type"
	known := HFTypes()
	if c.ModelType == "" {
		return &FieldError{File: c.Path, Field: field, Want: "one of " + strings.Join(known, ", ")}
	}
	return &FormatError{Format: hf, File: c.Path, Field: "field " + field,
		Err: &UnsupportedError{What: field, Name: quoteText(c.ModelType), Known: known, Closest: Closest(c.ModelType, known)}}
}

// Closest returns the known name with the fewest edits to name, "" if even
// that one differs in more than a third of its letters.
func Closest(name string, known []string) string {
	best, least := "", 1<<30
	for _, k := range known {
		if d := edits(name, k); d < least && d <= (len(k)+2)/3 {
			best, least = k, d
		}
	}
	return best
}

// edits returns the Levenshtein distance of two names. Names from a file are
// cut, so that a hostile one costs no time.
func edits(a, b string) int {
	a = a[:min(len(a), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diag+cost)
			diag, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// quantSchemes refuses weights packed in a way that is not read. What is read
// is recognised by the tensors themselves.
func (c *HFConfig) quantSchemes() error {
	const group = "/quantization_config"
	known := []string{"fp8", "mxfp4"}
	if c.Has("/quantization") {
		return &FormatError{Format: hf, File: c.Path, Field: "field quantization",
			Err: &UnsupportedError{What: "quantization scheme", Name: "of MLX (packed integers with scales)", Known: known}}
	}
	for _, group := range []string{group, "quantization_config", "/compression_config"} {
		if !c.Has(group) {
			continue
		}
		method, ok, err := c.Text(group + ".quant_method")
		if err != nil {
			return err
		}
		if !ok {
			return c.fieldError(group+".quant_method", "one of fp8, mxfp4")
		}
		if !slices.Contains(known, method) {
			return &FormatError{Format: hf, File: c.Path, Field: "field " + c.where(group+".quant_method"),
				Err: &UnsupportedError{What: "quantization scheme", Name: quoteText(method), Known: known}}
		}
	}
	return nil
}

var errNoWeights = errors.New("folder holds neither model.safetensors nor model.safetensors.index.json")
