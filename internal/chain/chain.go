// Package chain writes scripted models, for tests that need exact output.
//
// A scripted model is a llama of one layer whose embeddings are one-hot and whose
// attention and feed-forward add nothing, so that the next token depends on the
// last one alone: greedy decoding walks from each token to the one that was
// written down after it. A script begins at a key, a character of its own that a
// prompt ends with; one model can hold any number of scripts.
package chain

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"graphrun/graph"
	"graphrun/loaders"
)

// Template is a chat template whose prompts end with the last message, so that
// its last character chooses the script.
const Template = `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}`

// Model is a scripted model that is being written down.
type Model struct {
	// Template is the chat template; "" leaves the model without one.
	Template string
	// Scale is the logit of the next token over sqrt(Width); 0 is 10, which makes
	// it certain. All others are 0.
	Scale float32
	// Context is the length the model was trained for; 0 is 256.
	Context int

	tokens []string
	types  []int32
	next   map[int]int
	keys   int
}

// The first tokens of every model. Byte b is token Bytes+b.
const (
	Unknown = 0
	BOS     = 1
	EOS     = 2
	Bytes   = 3
)

// New returns a model without scripts. Its vocabulary has the special tokens, the
// bytes, and the control tokens of the roles that Template writes.
func New() *Model {
	m := &Model{next: map[int]int{}}
	m.add("<unk>", loaders.TokenUnknown)
	m.add("<s>", loaders.TokenControl)
	m.add("</s>", loaders.TokenControl)
	for b := range 256 {
		m.add(fmt.Sprintf("<0x%02X>", b), loaders.TokenByte)
	}
	m.add("▁", loaders.TokenNormal)
	for _, role := range []string{"system", "developer", "user", "assistant", "tool"} {
		m.add("<|"+role+"|>", loaders.TokenControl)
	}
	return m
}

func (m *Model) add(text string, kind loaders.TokenType) int {
	m.tokens, m.types = append(m.tokens, text), append(m.types, int32(kind))
	return len(m.tokens) - 1
}

// control is how control tokens are spelled.
var control = regexp.MustCompile(`^<(/s|\|[a-z_]+\|?|[a-z_]+\|)>$`)

// Say adds a script and returns its key. Each piece becomes a token of its own:
// <0xEA> a byte, <|name|> and the like a control token, which may be used again
// only at the end of a script, and all else text, with ▁ for a space.
func (m *Model) Say(pieces ...string) string {
	key := string(rune(0x4e00 + m.keys)) // an ideograph: no text holds it by chance
	m.keys++
	at := m.add(key, loaders.TokenNormal)
	for i, text := range pieces {
		to := -1
		switch {
		case control.MatchString(text):
			if to = slices.Index(m.tokens, text); to < 0 {
				to = m.add(text, loaders.TokenControl)
			}
		case strings.HasPrefix(text, "<0x") && len(text) == 6:
			to = m.add(text, loaders.TokenByte)
		default:
			to = m.add(text, loaders.TokenNormal)
		}
		m.next[at] = to
		if _, used := m.next[to]; used && i+1 < len(pieces) {
			panic("chain: " + text + " is used twice")
		}
		at = to
	}
	return key
}

// Loop adds a script that says its pieces for ever and returns its key.
func (m *Model) Loop(pieces ...string) string {
	key := m.Say(pieces...)
	last := len(m.tokens) - 1
	m.next[last] = last - len(pieces) + 1
	return key
}

// Vocab returns the number of tokens.
func (m *Model) Vocab() int { return len(m.tokens) }

// Width returns the width of the model.
func (m *Model) Width() int { return width(len(m.tokens)) }

// Bytes returns the model as a GGUF file.
func (m *Model) Bytes() ([]byte, error) {
	return File(m.tokens, m.types, m.next, m)
}

func width(vocab int) int { return (vocab + 255) / 256 * 256 }

// File returns the GGUF file of a vocabulary, the first three tokens of which are
// Unknown, BOS and EOS, in which next[t] follows t. Of o only the exported fields
// count.
func File(tokens []string, types []int32, next map[int]int, o *Model) ([]byte, error) {
	vocab, width := len(tokens), width(len(tokens))
	context, scale := o.Context, o.Scale
	if context == 0 {
		context = 256
	}
	if scale == 0 {
		scale = 10
	}
	meta := loaders.NewMetadata()
	meta.Set("general.architecture", "llama")
	meta.Set("general.name", "chain")
	for k, n := range map[string]int{
		"block_count": 1, "context_length": context, "embedding_length": width, "feed_forward_length": 32,
		"attention.head_count": 2, "attention.head_count_kv": 1, "attention.key_length": 16,
	} {
		meta.Set("llama."+k, uint32(n))
	}
	meta.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-6))
	scores := make([]float32, vocab)
	for i := range scores {
		scores[i] = -float32(vocab - i)
	}
	meta.Set("tokenizer.ggml.model", "llama")
	meta.Set("tokenizer.ggml.tokens", tokens)
	meta.Set("tokenizer.ggml.scores", scores)
	meta.Set("tokenizer.ggml.token_type", types)
	meta.Set("tokenizer.ggml.bos_token_id", uint32(BOS))
	meta.Set("tokenizer.ggml.eos_token_id", uint32(EOS))
	meta.Set("tokenizer.ggml.unknown_token_id", uint32(Unknown))
	if o.Template != "" {
		meta.Set("tokenizer.chat_template", o.Template)
	}
	tensors := []loaders.TensorInfo{
		{Name: "token_embd.weight", Shape: []int{vocab, width}}, {Name: "output.weight", Shape: []int{vocab, width}},
		{Name: "output_norm.weight", Shape: []int{width}}, {Name: "blk.0.attn_norm.weight", Shape: []int{width}}, {Name: "blk.0.ffn_norm.weight", Shape: []int{width}},
		{Name: "blk.0.attn_q.weight", Shape: []int{32, width}}, {Name: "blk.0.attn_k.weight", Shape: []int{16, width}}, {Name: "blk.0.attn_v.weight", Shape: []int{16, width}},
		{Name: "blk.0.attn_output.weight", Shape: []int{width, 32}},
		{Name: "blk.0.ffn_gate.weight", Shape: []int{32, width}}, {Name: "blk.0.ffn_up.weight", Shape: []int{32, width}}, {Name: "blk.0.ffn_down.weight", Shape: []int{width, 32}},
	}
	for i := range tensors {
		tensors[i].DType = graph.F32
	}
	var out bytes.Buffer
	err := loaders.Write(&out, meta, tensors, func(w io.Writer, i int) error {
		n := 1
		for _, d := range tensors[i].Shape {
			n *= d
		}
		v := make([]float32, n)
		switch name := tensors[i].Name; {
		case name == "token_embd.weight":
			for id := range vocab {
				v[id*width+id] = 1
			}
		case name == "output.weight":
			for id, to := range next {
				v[to*width+id] = scale
			}
		case strings.HasSuffix(name, "norm.weight"):
			for k := range v {
				v[k] = 1
			}
		}
		b := make([]byte, 0, 4*n)
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		_, err := w.Write(b)
		return err
	})
	return out.Bytes(), err
}
