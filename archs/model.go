package archs

import (
	"fmt"
	"slices"

	"graphrun/graph"
	"graphrun/loaders"
)

// Model is a model file whose keys and tensors have been checked against the
// record of its architecture. Everything found out about it is here.
type Model struct {
	Arch          *Arch
	Config        *Config
	Name          string // general.name, may be empty
	File          string
	D, V          int // model width, vocabulary
	P             int // width of per-layer embeddings, 0 without
	ContextLength int // positions the model was trained for
	Eps           float32
	Layers        []Layer
	Params        int // numbers in the tensors used
	WeightBytes   int // bytes of the tensors used
	// Warnings lists, a line each, what is odd about the file but does not
	// change what it computes: unused tensors and keys, disagreeing counts.
	Warnings []string

	tensors map[string]*loaders.Tensor // by the name the record gives it
}

// Load finds the architecture of an opened file, reads its keys and checks its
// tensors. The error names the first key or tensor that does not fit, with what
// was found and what was expected.
func Load(f *loaders.Model) (*Model, error) {
	name, err := f.Arch()
	if err != nil {
		return nil, err
	}
	a := Lookup(name)
	if a == nil {
		return nil, &UnknownError{Name: name, File: f.Path, Known: Known()}
	}
	c := readConfig(a, f)
	m := &Model{Arch: a, Config: c, File: f.Path, tensors: map[string]*loaders.Tensor{}}
	for _, step := range []func(*Config){m.resolveFacts, m.resolveLayers, m.bindTensors, m.checkVocabulary} {
		if c.err != nil {
			return nil, c.err
		}
		step(c)
	}
	if c.err != nil {
		return nil, c.err
	}
	m.warnUnused("keys", c.unused())
	return m, nil
}

// resolveFacts fills the facts that belong to the whole model.
func (m *Model) resolveFacts(c *Config) {
	name, _, err := c.file.Meta.String("general.name")
	if err != nil {
		m.warn("%v", err)
	}
	m.Name = name
	m.D = c.Int("embedding_length")
	m.ContextLength = c.Int("context_length")
	m.Eps = c.Float("attention.layer_norm_rms_epsilon")
	if c.listed("embedding_length_per_layer_input") {
		m.P = c.Int("embedding_length_per_layer_input")
	}
	const embd = "token_embd.weight"
	t, ok := c.file.Tensor(embd)
	switch {
	case !ok:
		c.Fail(tensorError(c.file.Path, embd, "missing, expected shape [V,D]"))
	case len(t.Shape) != 2 || t.Shape[1] != m.D:
		c.Fail(tensorError(t.File, embd, "found shape %s, expected [V,D] = [V,%d]", shapeText(t.Shape), m.D))
	default:
		m.V = t.Shape[0]
	}
}

// checkVocabulary compares the rows of the embedding with the tokenizer and
// with the key for it, which files do not need.
func (m *Model) checkVocabulary(c *Config) {
	const key = "tokenizer.ggml.tokens"
	tokens, ok, err := c.file.Meta.Strings(key)
	switch {
	case err != nil:
		c.Fail(err)
	case ok && (len(tokens) == 0 || len(tokens) > m.V):
		c.Fail(&loaders.KeyError{File: c.file.Path, Key: key, Got: fmt.Sprintf("%d tokens", len(tokens)),
			Want: fmt.Sprintf("as many as rows in token_embd.weight, %d", m.V)})
	case ok && len(tokens) < m.V:
		m.warn("token_embd.weight has %d rows for %d tokens: the last %d stand for no text", m.V, len(tokens), m.V-len(tokens))
	}
	if n, ok, err := c.file.Meta.Int(c.full("vocab_size")); err != nil {
		c.Fail(err)
	} else if ok && n != int64(m.V) {
		m.warn("%s is %d, but %s has %d rows; the rows count", c.name("vocab_size"), n, c.file.SourceName("token_embd.weight"), m.V)
	}
	if kind, ok, err := c.file.Meta.String("tokenizer.ggml.model"); err != nil {
		c.Fail(err)
	} else if ok && !slices.Contains(m.Arch.Tokenizers, kind) {
		m.warn("tokenizer.ggml.model is %q, unusual for %s: its files have %v", kind, m.Arch.Name, m.Arch.Tokenizers)
	}
}

func (m *Model) warn(format string, args ...any) {
	m.Warnings = append(m.Warnings, fmt.Sprintf(format, args...))
}

// MoE returns the experts per layer and those used for a token, 0 and 0 for a
// dense model.
func (m *Model) MoE() (experts, used int) {
	for i := range m.Layers {
		if l := &m.Layers[i]; l.MoE() {
			return l.E, l.U
		}
	}
	return 0, 0
}

// MaxWindow returns the largest window of the sliding layers, 0 when there are
// none.
func (m *Model) MaxWindow() int {
	w := 0
	for i := range m.Layers {
		w = max(w, m.Layers[i].Window)
	}
	return w
}

// GraphOptions say how to build a graph.
type GraphOptions struct {
	// KV is the element type of the caches: F32, F16 or Q8_0; the zero value
	// means F16.
	KV graph.DType
}

// Graph builds the graph of the model. Its inputs are tokens, pos and seq
// i32[T], rows i32[R], pages i32[N,C] and, if a layer has a window, pages.window
// i32[N,CW]. Its outputs are logits f32[R,V] and hidden f32[R,D], the normed
// state the logits are computed from.
func (m *Model) Graph(o GraphOptions) (*graph.Graph, error) {
	if o.KV == graph.Invalid {
		o.KV = graph.F16
	}
	if err := m.checkKV(o.KV); err != nil {
		return nil, err
	}
	b := newBuild(m, o)
	m.Arch.Build(b)
	if m.Config.err != nil {
		return nil, m.Config.err
	}
	return b.Finish()
}

func (m *Model) checkKV(dt graph.DType) error {
	switch dt {
	case graph.F32, graph.F16, graph.Q8_0:
	default:
		return &loaders.UnsupportedError{What: "cache type", Name: dt.String(), Known: []string{"f32", "f16", "q8_0"}}
	}
	for i := range m.Layers {
		if l := &m.Layers[i]; l.K%dt.BlockElems() != 0 {
			return fmt.Errorf("archs: cache type %s: heads of layer %d have %d numbers, no multiple of %d; use f16", dt, i, l.K, dt.BlockElems())
		}
	}
	return nil
}
