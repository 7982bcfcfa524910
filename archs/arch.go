package archs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"graphrun/loaders"
)

// Arch describes an architecture as data, beside the two functions that data
// cannot replace.
type Arch struct {
	Name string // value of general.architecture, and prefix of its keys
	Doc  string // one line: the models that use it
	// Keys lists the keys read, block_count first. A default may refer to keys
	// before it.
	Keys []Key
	// Tensors lists the tensors of a file.
	Tensors []Tensor
	// Rope says which numbers of a head are rotated together.
	Rope RopeKind
	// Tokenizers lists the values of tokenizer.ggml.model that files have.
	Tokenizers []string
	// HF says how folders of Hugging Face form hold the architecture; nil if none
	// are read.
	HF *loaders.HF
	// Layer completes the facts of layer l, which has been filled from the
	// usual keys; nil if they say it all.
	Layer func(c *Config, l *Layer)
	// Build adds the whole computation, from tokens to logits.
	Build func(b *Build)
}

// RopeKind is the layout of rotary pairs.
type RopeKind uint8

// The layouts: numbers 2i and 2i+1, or i and i + half of the rotated width.
const (
	Adjacent RopeKind = iota
	Half
)

// Key is a configuration key.
type Key struct {
	// Name is the key without the architecture's prefix: block_count is
	// llama.block_count in the file.
	Name string
	Kind Kind
	// Default is what an absent key means: an int, float64, bool or string as
	// the kind asks for, Same or Ratio. nil makes the key required.
	Default any
	Check   Check
	// Old is the name of the key in older files, read when Name is absent.
	Old string
}

// Kind is the type of a key's value.
type Kind uint8

// The kinds of keys. A PerLayer key may be one value for all layers or an
// array with an element for each; Bools is always such an array.
const (
	Uint Kind = iota
	Float
	Bool
	Text
	UintPerLayer
	Bools
)

// Same is the default that takes the value of another key.
type Same string

// Ratio is the default that divides one key by another, without remainder.
type Ratio struct{ Num, Den string }

// Check is a condition on each value of a key. The zero Check accepts all
// values of the kind; floats must always be finite.
type Check struct {
	Want string // completes "expected"
	OK   func(v any) bool
}

// Range accepts integers and floats from lo to hi.
func Range(lo, hi float64) Check {
	want := fmt.Sprintf("a number from %s to %s", short(lo), short(hi))
	return Check{want, func(v any) bool {
		x := number(v)
		return lo <= x && x <= hi
	}}
}

// Positive accepts numbers above 0.
var Positive = Check{"a finite number above 0", func(v any) bool { return number(v) > 0 }}

// EvenTo accepts even integers from 2 to most.
func EvenTo(most int) Check {
	return Check{fmt.Sprintf("an even number from 2 to %d", most), func(v any) bool {
		n, ok := v.(int)
		return ok && n > 0 && n <= most && n%2 == 0
	}}
}

// OneOf accepts the listed words.
func OneOf(words ...string) Check {
	return Check{"one of " + strings.Join(words, ", "), func(v any) bool {
		s, ok := v.(string)
		return ok && slices.Contains(words, s)
	}}
}

func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

func short(x float64) string { return strconv.FormatFloat(x, 'g', 10, 64) }

// Tensor is a tensor, or one of each layer, of a file.
type Tensor struct {
	// Name is the tensor's name; blk.N. stands for each layer.
	Name string
	// Shape is row-major, in the letters of the package: "HK,D". A letter that
	// differs between layers means, outside of blk.N., the first layer without
	// a window.
	Shape string
	Flags Flag
	// When limits the tensor to the layers it reports true for; outside of
	// blk.N. it is asked about the first layer without a window. nil is always.
	When func(l *Layer) bool
	// Tied names the tensor that is used when this one is absent.
	Tied string
	// Or names the tensor that replaces this one: exactly one of both is there.
	Or string
}

// Flag says what may be missing, or stand beside a tensor.
type Flag uint8

// The flags of tensors. Bias and Scale companions have the tensor's name with
// .bias or .scale instead of .weight. A bias has the tensor's shape without the
// last dimension. A scale is one factor for the whole matrix.
const (
	Optional Flag = 1 << iota // may be absent
	Ignored                   // may be present and is not used
	WithBias                  // a bias is beside it
	MayBias                   // a bias may be beside it
	MayScale                  // a factor may be beside it
)

// Has reports whether all flags of g are set.
func (f Flag) Has(g Flag) bool { return f&g == g }

// PerLayer reports whether there is a tensor of that kind in each layer.
func (t Tensor) PerLayer() bool { return strings.HasPrefix(t.Name, "blk.N.") }

var registry = struct {
	sync.RWMutex
	archs map[string]*Arch
}{archs: map[string]*Arch{}}

// Register adds an architecture. It panics when the name is taken or the record
// contradicts itself: both are programming errors, seen at start.
func Register(a *Arch) *Arch {
	if err := a.check(); err != nil {
		panic(fmt.Sprintf("archs: record of %q: %v", a.Name, err))
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.archs[a.Name] != nil {
		panic("archs: " + a.Name + " is registered twice")
	}
	registry.archs[a.Name] = a
	if a.HF != nil {
		loaders.RegisterHF(a.Name, a.HF)
	}
	return a
}

// Lookup returns the architecture of that name, nil when there is none.
func Lookup(name string) *Arch {
	registry.RLock()
	defer registry.RUnlock()
	return registry.archs[name]
}

// Known returns the names of all architectures, sorted.
func Known() []string {
	registry.RLock()
	defer registry.RUnlock()
	return slices.Sorted(maps.Keys(registry.archs))
}

// check finds mistakes of the record that no file is needed for.
func (a *Arch) check() error {
	if a.Name == "" || a.Build == nil || len(a.Keys) == 0 || a.Keys[0].Name != "block_count" {
		return errors.New("it needs a name, a Build function and block_count as its first key")
	}
	seen := map[string]bool{}
	for _, k := range a.Keys {
		refs := []string{}
		switch d := k.Default.(type) {
		case Same:
			refs = append(refs, string(d))
		case Ratio:
			refs = append(refs, d.Num, d.Den)
		}
		for _, r := range refs {
			if !seen[r] {
				return fmt.Errorf("the default of key %s needs key %s before it", k.Name, r)
			}
		}
		if seen[k.Name] {
			return fmt.Errorf("key %s is listed twice", k.Name)
		}
		seen[k.Name] = true
	}
	for _, need := range usualKeys {
		if !seen[need] {
			return fmt.Errorf("key %s is not listed", need)
		}
	}
	for _, t := range a.Tensors {
		if t.Flags.Has(Ignored) {
			continue
		}
		if _, err := dims(t.Shape, func(byte) int { return 1 }); err != nil {
			return fmt.Errorf("tensor %s: %v", t.Name, err)
		}
	}
	return nil
}

// UnknownError says that no architecture of the name is registered.
type UnknownError struct {
	Name  string
	File  string
	Known []string
}

// Error prints the known names, and the closest one if it is close.
func (e *UnknownError) Error() string {
	text := fmt.Sprintf("archs: unknown architecture %q in %s; known: %s", e.Name, e.File, strings.Join(e.Known, ", "))
	if c := loaders.Closest(e.Name, e.Known); c != "" {
		text += fmt.Sprintf("; closest: %s", c)
	}
	return text
}

// Is reports whether target is errors.ErrUnsupported.
func (e *UnknownError) Is(target error) bool { return target == errors.ErrUnsupported }
