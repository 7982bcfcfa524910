package archs

import (
	"math"
	"testing"

	"graphrun/loaders"
)

// TestScale resolves the score scale from the keys of published models, which
// are too large to make files of.
func TestScale(t *testing.T) {
	for _, c := range []struct {
		arch            string
		layers, d, h, k int
		want            float64
	}{
		{"gemma3", 26, 1152, 4, 256, 1.0 / 16},
		{"gemma3", 34, 2560, 8, 256, 1.0 / 16},
		{"gemma3", 48, 3840, 16, 256, 1.0 / 16},
		{"gemma3", 62, 5376, 32, 128, 0.0771517},
		{"gemma2", 26, 2304, 8, 256, 1.0 / 16},
		{"gemma2", 42, 3584, 16, 256, 1.0 / 16},
		{"gemma2", 46, 4608, 32, 128, 1.0 / 12},
		{"gemma4", 60, 5376, 32, 512, 1},
		{"llama", 32, 4096, 32, 128, 0.08838835},
	} {
		meta := loaders.NewMetadata()
		set := func(name string, v any) { meta.Set(c.arch+"."+name, v) }
		set("block_count", uint32(c.layers))
		set("context_length", uint32(8192))
		set("embedding_length", uint32(c.d))
		set("feed_forward_length", uint32(1024))
		set("attention.head_count", uint32(c.h))
		set("attention.key_length", uint32(c.k))
		set("attention.layer_norm_rms_epsilon", float32(1e-6))
		set("rope.freq_base", float32(1e6))
		if c.arch == "gemma4" {
			set("attention.key_length_swa", uint32(c.k/2))
			set("attention.sliding_window", uint32(1024))
			set("attention.sliding_window_pattern", make([]bool, c.layers))
			set("embedding_length_per_layer_input", uint32(0))
		}
		a := Lookup(c.arch)
		m := &Model{Arch: a}
		conf := readConfig(a, &loaders.Model{Path: "keys", Meta: meta})
		if m.resolveLayers(conf); conf.err != nil {
			t.Error(conf.err)
			continue
		}
		for _, l := range m.Layers {
			if math.Abs(float64(l.Scale)-c.want) > 1e-7 {
				t.Errorf("%s with %d layers: scale of layer %d is %v, want %v", c.arch, c.layers, l.Index, l.Scale, c.want)
				break
			}
		}
	}
}

func TestDims(t *testing.T) {
	size := func(letter byte) int { return map[byte]int{'H': 4, 'G': 2, 'K': 16, 'D': 64, 'R': 10}[letter] }
	for shape, want := range map[string]string{
		"D": "[64]", "HK,D": "[64,64]", "HK+2GK,D": "[128,64]", "R/2": "[5]", "1": "[1]", "2K,D": "[32,64]",
	} {
		got, err := dims(shape, size)
		if err != nil || shapeText(got) != want {
			t.Errorf("%s is %v, %v, want %s", shape, got, err, want)
		}
	}
	for _, shape := range []string{"", "D,", "Q", "D/0", "D/x", "D+"} {
		if got, err := dims(shape, size); err == nil {
			t.Errorf("%q is %v, want an error", shape, got)
		}
	}
}

// TestRegister refuses records that contradict themselves.
func TestRegister(t *testing.T) {
	good := *llama
	for name, change := range map[string]func(a *Arch){
		"taken name":  func(a *Arch) {},
		"no build":    func(a *Arch) { a.Name, a.Build = "x", nil },
		"key order":   func(a *Arch) { a.Name, a.Keys = "x", a.Keys[1:] },
		"missing key": func(a *Arch) { a.Name, a.Keys = "x", a.Keys[:4] },
		"bad shape":   func(a *Arch) { a.Name, a.Tensors = "x", []Tensor{{Name: "w", Shape: "Z"}} },
		"forward same": func(a *Arch) {
			a.Name, a.Keys = "x", append([]Key{a.Keys[0], {Name: "k", Default: Same("later")}}, a.Keys[1:]...)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			a := good
			change(&a)
			Register(&a)
		}()
	}
}
