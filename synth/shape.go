package synth

import (
	"strings"

	"graphrun/loaders"
)

// Shape is the set of sizes of a published model.
type Shape struct {
	Name string // as the command takes it
	Doc  string // the published model
	arch string

	layers, width, ffn      int
	heads, kvHeads, kvFull  int // kvFull: kv heads of layers without a window, 0 is kvHeads
	headWidth, fullWidth    int // fullWidth: head width of layers without a window, 0 is headWidth
	vocab, context          int
	untied                  bool // the head has a matrix of its own
	eps, theta, linear      float64
	ropeFactor              float64 // of Llama 3's rope_freqs, 0 is none
	window, period          int     // each period-th layer sees all positions
	shared                  int     // last layers without keys and values
	perLayer                int     // width of the per-layer embedding
	wideShared              bool    // feed-forward of the shared layers has twice the width
	experts, used, expertFF int
	words                   vocabulary
}

// Shapes returns all shapes, the tiny ones for tests last.
func Shapes() []Shape { return append([]Shape(nil), shapes...) }

// Lookup returns the shape of that name, in any case. The error lists the known
// ones.
func Lookup(name string) (Shape, error) {
	var known []string
	for _, s := range shapes {
		if strings.EqualFold(s.Name, name) {
			return s, nil
		}
		known = append(known, s.Name)
	}
	return Shape{}, &loaders.UnsupportedError{What: "shape", Name: name, Known: known}
}

// The sizes are those of the models' published configurations.
var shapes = []Shape{
	{
		Name: "smollm2-135m", Doc: "SmolLM2 135M", arch: "llama", layers: 30, width: 576, ffn: 1536, heads: 9, kvHeads: 3, headWidth: 64,
		vocab: 49152, context: 8192, eps: 1e-5, theta: 1e5, words: smollm,
	},
	{
		Name: "llama-3.2-1b", Doc: "Llama 3.2 1B", arch: "llama", layers: 16, width: 2048, ffn: 8192, heads: 32, kvHeads: 8, headWidth: 64,
		vocab: 128256, context: 131072, eps: 1e-5, theta: 5e5, ropeFactor: 32, words: llama3,
	},
	{
		Name: "llama-3.2-3b", Doc: "Llama 3.2 3B", arch: "llama", layers: 28, width: 3072, ffn: 8192, heads: 24, kvHeads: 8, headWidth: 128,
		vocab: 128256, context: 131072, eps: 1e-5, theta: 5e5, ropeFactor: 32, words: llama3,
	},
	{
		Name: "llama-3.1-8b", Doc: "Llama 3.1 8B", arch: "llama", layers: 32, width: 4096, ffn: 14336, heads: 32, kvHeads: 8, headWidth: 128,
		vocab: 128256, context: 131072, untied: true, eps: 1e-5, theta: 5e5, ropeFactor: 8, words: llama3,
	},
	{
		Name: "gemma-3-1b", Doc: "Gemma 3 1B", arch: "gemma3", layers: 26, width: 1152, ffn: 6912, heads: 4, kvHeads: 1, headWidth: 256,
		vocab: 262144, context: 32768, eps: 1e-6, theta: 1e6, window: 512, period: 6, words: gemma3,
	},
	{
		Name: "gemma-3-4b", Doc: "Gemma 3 4B", arch: "gemma3", layers: 34, width: 2560, ffn: 10240, heads: 8, kvHeads: 4, headWidth: 256,
		vocab: 262144, context: 131072, eps: 1e-6, theta: 1e6, linear: 8, window: 1024, period: 6, words: gemma3,
	},
	{
		Name: "gemma-4-e2b", Doc: "Gemma 4 E2B", arch: "gemma4", layers: 35, width: 1536, ffn: 6144, heads: 8, kvHeads: 1, headWidth: 256, fullWidth: 512,
		vocab: 262144, context: 131072, eps: 1e-6, theta: 1e6, window: 512, period: 5, shared: 20, perLayer: 256, wideShared: true, words: gemma4,
	},
	{
		Name: "gemma-4-e4b", Doc: "Gemma 4 E4B", arch: "gemma4", layers: 42, width: 2560, ffn: 10240, heads: 8, kvHeads: 2, headWidth: 256, fullWidth: 512,
		vocab: 262144, context: 131072, eps: 1e-6, theta: 1e6, window: 512, period: 6, shared: 18, perLayer: 256, words: gemma4,
	},
	{
		Name: "gemma-4-26b-a4b", Doc: "Gemma 4 26B-A4B", arch: "gemma4", layers: 30, width: 2816, ffn: 2112, heads: 16, kvHeads: 8, kvFull: 2, headWidth: 256, fullWidth: 512,
		vocab: 262144, context: 262144, eps: 1e-6, theta: 1e6, window: 1024, period: 6, experts: 128, used: 8, expertFF: 704, words: gemma4,
	},
	{
		Name: "tiny-llama", Doc: "for tests: Llama 3 with every width small", arch: "llama", layers: 4, width: 256, ffn: 512, heads: 4, kvHeads: 1, headWidth: 64,
		vocab: 2048, context: 1024, untied: true, eps: 1e-5, theta: 5e5, ropeFactor: 32, words: llama3,
	},
	{
		Name: "tiny-gemma3", Doc: "for tests: Gemma 3", arch: "gemma3", layers: 6, width: 256, ffn: 512, heads: 2, kvHeads: 1, headWidth: 128,
		vocab: 2048, context: 1024, eps: 1e-6, theta: 1e6, window: 64, period: 3, linear: 8, words: gemma3,
	},
	{
		Name: "tiny-gemma4", Doc: "for tests: Gemma 4 E2B", arch: "gemma4", layers: 6, width: 256, ffn: 512, heads: 2, kvHeads: 1, headWidth: 64, fullWidth: 128,
		vocab: 2048, context: 1024, eps: 1e-6, theta: 1e6, window: 64, period: 3, shared: 3, perLayer: 32, wideShared: true, words: gemma4,
	},
	{
		Name: "tiny-gemma4-moe", Doc: "for tests: Gemma 4 26B-A4B", arch: "gemma4", layers: 6, width: 256, ffn: 256, heads: 4, kvHeads: 2, kvFull: 1, headWidth: 64, fullWidth: 128,
		vocab: 2048, context: 1024, eps: 1e-6, theta: 1e6, window: 64, period: 3, experts: 8, used: 2, expertFF: 256, words: gemma4,
	},
}

// layer is what differs between the layers of a shape.
type layer struct {
	full, ownsKV     bool
	kvHeads, k, ffn  int
	valuesFromTheKey bool
}

func (s *Shape) layer(i int) layer {
	l := layer{full: s.window == 0 || (i+1)%s.period == 0, ownsKV: i < s.layers-s.shared, kvHeads: s.kvHeads, k: s.headWidth, ffn: s.ffn}
	if l.full && s.window > 0 {
		l.kvHeads, l.k = or(s.kvFull, s.kvHeads), or(s.fullWidth, s.headWidth)
		l.valuesFromTheKey = s.experts > 0
	}
	if s.wideShared && !l.ownsKV {
		l.ffn *= 2
	}
	return l
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
