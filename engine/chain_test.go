package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/loaders"
)

// chainFile writes a GGUF file of a llama that follows a chain of tokens:
// embeddings are one-hot, attention and feed-forward add nothing, and the head
// has logit 10·sqrt(D) for next[t] after t, token 0 where next has none. change
// may alter the tensors.
func chainFile(t testing.TB, next map[int32]int32, change func(name string, w []float32)) []byte {
	t.Helper()
	v := fakeVocab()
	const d, kv, ff = 512, 32, 32
	n := len(v.Tokens)
	meta := loaders.NewMetadata()
	meta.Set("general.architecture", "llama")
	for key, x := range map[string]uint32{"block_count": 1, "context_length": 256, "embedding_length": d, "feed_forward_length": ff,
		"attention.head_count": d / kv, "attention.head_count_kv": 1} {
		meta.Set("llama."+key, x)
	}
	meta.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-6))
	meta.Set("tokenizer.ggml.model", v.Model)
	meta.Set("tokenizer.ggml.tokens", v.Tokens)
	meta.Set("tokenizer.ggml.scores", v.Scores)
	types := make([]int32, n)
	for i, typ := range v.Types {
		types[i] = int32(typ)
	}
	meta.Set("tokenizer.ggml.token_type", types)
	meta.Set("tokenizer.ggml.bos_token_id", uint32(v.BOS))
	meta.Set("tokenizer.ggml.eos_token_id", uint32(v.EOS))
	meta.Set("tokenizer.ggml.eot_token_id", uint32(v.EOT))

	var infos []loaders.TensorInfo
	var data [][]float32
	add := func(name string, fill func(w []float32), shape ...int) {
		size := 1
		for _, x := range shape {
			size *= x
		}
		w := make([]float32, size)
		if fill != nil {
			fill(w)
		}
		if change != nil {
			change(name, w)
		}
		infos = append(infos, loaders.TensorInfo{Name: name, DType: graph.F32, Shape: shape})
		data = append(data, w)
	}
	ones := func(w []float32) {
		for i := range w {
			w[i] = 1
		}
	}
	add("token_embd.weight", func(w []float32) {
		for i := range n {
			w[i*d+i] = 1
		}
	}, n, d)
	add("blk.0.attn_norm.weight", ones, d)
	add("blk.0.attn_q.weight", nil, d, d)
	add("blk.0.attn_k.weight", nil, kv, d)
	add("blk.0.attn_v.weight", nil, kv, d)
	add("blk.0.attn_output.weight", nil, d, d)
	add("blk.0.ffn_norm.weight", ones, d)
	add("blk.0.ffn_gate.weight", nil, ff, d)
	add("blk.0.ffn_up.weight", nil, ff, d)
	add("blk.0.ffn_down.weight", nil, d, ff)
	add("output_norm.weight", ones, d)
	add("output.weight", func(w []float32) {
		for i := range int32(n) {
			w[int(next[i])*d+int(i)] = 10
		}
	}, n, d)
	var out bytes.Buffer
	err := loaders.Write(&out, meta, infos, func(w io.Writer, i int) error {
		return binary.Write(w, binary.LittleEndian, data[i])
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// follow makes a chain of tokens, each used once.
func follow(tokens ...int32) map[int32]int32 {
	next := map[int32]int32{}
	for i, id := range tokens[:len(tokens)-1] {
		next[id] = tokens[i+1]
	}
	return next
}

// TestChainModel drives a scripted model through the whole way from file to
// text, on both backends.
func TestChainModel(t *testing.T) {
	smile := letters("\xf0\x9f\x98\x80")
	path := slices.Concat([]int32{tokBOS}, letters("ab"), smile, letters("c\xea\xb9\xb0dxyz"), []int32{tokEOT})
	file := chainFile(t, follow(path...), nil)
	for _, backend := range []string{"ref", "cpu"} {
		m, err := OpenBytes("chain", file, Options{Backend: backend, Threads: 1, Check: true})
		if err != nil {
			t.Fatal(err)
		}
		s := m.NewSession()
		ask := func(o GenerateOptions) (string, []Token) {
			t.Helper()
			if _, err := s.Prompt(t.Context(), m.Encode("")); err != nil {
				t.Fatal(err)
			}
			text, toks, err := answer(t, s, o)
			if err != nil {
				t.Fatal(err)
			}
			return text, toks
		}
		if text, toks := ask(GenerateOptions{Top: 2}); text != "ab😀c\uae70dxyz" || s.StopReason() != StopEOG {
			t.Errorf("%s: %q, %s", backend, text, s.StopReason())
		} else if want := -math.Log1p(float64(m.limits.Vocab-1) * math.Exp(-10*math.Sqrt(512))); math.Abs(toks[0].Logprob-want) > 1e-4 || toks[0].Top[1].ID != 0 {
			t.Errorf("%s: log-probability %v, want %v", backend, toks[0], want)
		}
		for _, c := range []struct{ stop, want string }{
			{"dx", "ab😀c\uae70"}, {"b😀", "a"}, {"\uae70d", "ab😀c"}, {"yz!", "ab😀c\uae70dxyz"},
		} {
			if text, _ := ask(GenerateOptions{Stop: []string{c.stop}}); text != c.want {
				t.Errorf("%s: stop %q: %q, want %q", backend, c.stop, text, c.want)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBadWeights is NU-02 on a real program: a weight that is not finite ends
// the answer with an error that names the token, and Check finds the tensor.
func TestBadWeights(t *testing.T) {
	c := int(letters("c")[0])
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		for where, token := range map[string]int{
			"token_embd.weight": 3, // met when c, token 3, is looked up
			"output.weight":     0, // met by every token: 0 times the number is NaN
		} {
			file := chainFile(t, follow(slices.Concat([]int32{tokBOS}, letters("abcd"), []int32{tokEOS})...), func(name string, w []float32) {
				if name == where {
					w[c*512+7] = float32(bad)
				}
			})
			for _, backend := range []string{"ref", "cpu"} {
				m, err := OpenBytes("bad", file, Options{Backend: backend, Threads: 1})
				if err != nil {
					t.Fatal(err)
				}
				s := m.NewSession()
				text := ""
				if err = s.Append(t.Context(), tokBOS); err == nil {
					text, _, err = answer(t, s, GenerateOptions{})
				}
				var e *NonFiniteError
				if !errors.As(err, &e) || e.Token != token || len(text) != token {
					t.Errorf("%s, %v in %s: %q, %v", backend, bad, where, text, err)
				}
				m.Close()
			}
			_, err := OpenBytes("bad", file, Options{Check: true})
			if err == nil || !strings.Contains(err.Error(), where) {
				t.Errorf("Check: %v", err)
			}
		}
	}
}
