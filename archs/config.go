package archs

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"graphrun/loaders"
)

// usualKeys are the keys every record lists: the facts of a Layer start from
// them.
var usualKeys = []string{
	"block_count", "context_length", "embedding_length", "feed_forward_length",
	"attention.head_count", "attention.head_count_kv", "attention.key_length",
	"attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.dimension_count",
}

// Config holds the checked values of an architecture's keys. It keeps the first
// error, as the graph builder does, so that a record's functions need no error
// handling: after an error getters return zero values.
type Config struct {
	arch   *Arch
	file   *loaders.Model
	layers int
	vals   map[string]any // int, float64, bool, string, []int, []bool
	given  map[string]bool
	err    error
}

// readConfig reads all keys of the record.
func readConfig(a *Arch, f *loaders.Model) *Config {
	c := &Config{arch: a, file: f, vals: map[string]any{}, given: map[string]bool{}}
	for _, k := range a.Keys {
		if c.err != nil {
			break
		}
		c.read(k)
		if k.Name == "block_count" {
			c.layers, _ = c.vals[k.Name].(int)
		}
	}
	return c
}

// unused returns the file's keys under the architecture's prefix that the
// record does not list. vocab_size is compared with the tensors instead.
func (c *Config) unused() []string {
	known := map[string]bool{c.full("vocab_size"): true}
	for _, k := range c.arch.Keys {
		known[c.full(k.Name)] = true
		if k.Old != "" {
			known[c.full(k.Old)] = true
		}
	}
	var names []string
	for _, name := range c.file.Meta.Keys() {
		if strings.HasPrefix(name, c.full("")) && !known[name] {
			names = append(names, name)
		}
	}
	return names
}

// full returns the key as it is in the file.
func (c *Config) full(name string) string { return c.arch.Name + "." + name }

// name returns the name by which a person knows a key.
func (c *Config) name(name string) string { return c.file.KeyName(c.full(name)) }

// Fail keeps err if it is the first.
func (c *Config) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// FailKey records that a key's value does not fit.
func (c *Config) FailKey(name, want string, args ...any) {
	key, got := c.full(name), ""
	v, ok := c.file.Meta.Value(key)
	switch known := c.vals[name]; {
	case ok && c.name(name) != key:
		got = v.String()
	case ok:
		got = v.TypeName() + " " + v.String()
	case known != nil && c.name(name) != key:
		got = fmt.Sprint(known)
	case known != nil:
		got = fmt.Sprintf("no such key, which means %v", known)
	}
	c.Fail(c.file.KeyError(key, got, fmt.Sprintf(want, args...)))
}

// read takes one key from the file, or its default, and checks it.
func (c *Config) read(k Key) {
	name := c.full(k.Name)
	if _, ok := c.file.Meta.Value(name); !ok && k.Old != "" {
		name = c.full(k.Old)
	}
	v, ok, err := c.value(k, name)
	if err != nil {
		c.Fail(err)
		return
	}
	if !ok {
		if v = c.fallback(k); v == nil {
			return
		}
	}
	c.given[k.Name] = ok
	c.vals[k.Name] = v
	c.check(k, name, v)
}

// value reads a key of the file and reports whether it is there.
func (c *Config) value(k Key, name string) (v any, ok bool, err error) {
	m := c.file.Meta
	switch raw, _ := m.Value(name); {
	case k.Kind == Bools:
		var a []bool
		a, ok, err = m.Bools(name)
		v = a
	case k.Kind == UintPerLayer && raw.Len() > 0:
		var a []int64
		if a, ok, err = m.Ints(name); err == nil {
			v = toInts(a)
		}
	case k.Kind == Uint || k.Kind == UintPerLayer:
		var n int64
		n, ok, err = m.Int(name)
		v = int(n)
	case k.Kind == Float:
		v, ok, err = m.Float(name)
	case k.Kind == Bool:
		v, ok, err = m.Bool(name)
	default:
		v, ok, err = m.String(name)
	}
	return v, ok, err
}

func toInts(a []int64) []int {
	out := make([]int, len(a))
	for i, n := range a {
		out[i] = int(n)
	}
	return out
}

// fallback returns the value of an absent key, nil after an error.
func (c *Config) fallback(k Key) any {
	switch d := k.Default.(type) {
	case nil:
		c.FailKey(k.Name, "%s", k.want())
		return nil
	case Same:
		return c.vals[string(d)]
	case Ratio:
		n, den := c.Int(d.Num), c.Int(d.Den)
		if den == 0 || n%den != 0 {
			c.FailKey(d.Den, "a divisor of %s %d, as %s is absent", c.name(d.Num), n, c.name(k.Name))
			return nil
		}
		return n / den
	default:
		return d
	}
}

// want says what values a key may have.
func (k Key) want() string {
	if k.Check.Want != "" {
		return k.Check.Want
	}
	switch k.Kind {
	case Float:
		return "a float"
	case Bool:
		return "a bool"
	case Text:
		return "a string"
	case Bools:
		return "an array of bools"
	}
	return "an integer"
}

// maxUint bounds integers without a check of their own, so that products of
// three stay below 2^63.
const maxUint = 1 << 20

// check applies the condition of a key to its value or values.
func (c *Config) check(k Key, name string, v any) {
	bad := func(x any, at, want string) {
		got := fmt.Sprintf("%v%s", x, at)
		if !c.given[k.Name] {
			got += " (the default)"
		}
		c.Fail(c.file.KeyError(name, got, want))
	}
	one := func(x any, at string) {
		switch n := x.(type) {
		case int:
			if k.Check.OK == nil && (n < 0 || n > maxUint) {
				bad(x, at, fmt.Sprintf("a number from 0 to %d", maxUint))
			}
		case float64:
			if math.IsNaN(n) || math.Abs(n) > math.MaxFloat32 {
				bad(x, at, k.want())
			}
		}
		if k.Check.OK != nil && !k.Check.OK(x) {
			bad(x, at, k.want())
		}
	}
	switch v := v.(type) {
	case []int:
		if len(v) != c.layers {
			bad(fmt.Sprintf("%d elements", len(v)), "", fmt.Sprintf("one for each of %d layers", c.layers))
			return
		}
		for l, n := range v {
			one(n, " for layer "+strconv.Itoa(l))
		}
	case []bool:
		if len(v) != c.layers {
			bad(fmt.Sprintf("%d elements", len(v)), "", fmt.Sprintf("one for each of %d layers", c.layers))
		}
	default:
		one(v, "")
	}
}

// get returns the value of a listed key.
func (c *Config) get(name string) any {
	v, ok := c.vals[name]
	if !ok {
		c.Fail(fmt.Errorf("archs: the record of %s asks for key %s, which it does not list", c.arch.Name, name))
	}
	return v
}

// Int returns an integer. A per-layer key must be the same in all layers.
func (c *Config) Int(name string) int {
	switch v := c.get(name).(type) {
	case int:
		return v
	case []int:
		for _, n := range v {
			if n != v[0] {
				c.FailKey(name, "the same number for all layers")
				return 0
			}
		}
		return v[0]
	}
	return 0
}

// IntAt returns an integer of layer l.
func (c *Config) IntAt(name string, l int) int {
	switch v := c.get(name).(type) {
	case int:
		return v
	case []int:
		if l < len(v) {
			return v[l]
		}
	}
	return 0
}

// Float returns a float.
func (c *Config) Float(name string) float32 { v, _ := c.get(name).(float64); return float32(v) }

// Bool returns a bool.
func (c *Config) Bool(name string) bool { v, _ := c.get(name).(bool); return v }

// BoolAt returns the bool of layer l.
func (c *Config) BoolAt(name string, l int) bool {
	v, _ := c.get(name).([]bool)
	return l < len(v) && v[l]
}

// Text returns a string.
func (c *Config) Text(name string) string { v, _ := c.get(name).(string); return v }

// Given reports whether the file has the key.
func (c *Config) Given(name string) bool { return c.given[name] }

// Layers returns the number of layers.
func (c *Config) Layers() int { return c.layers }

// Has reports whether the file has the tensor.
func (c *Config) Has(tensor string) bool {
	_, ok := c.file.Tensor(tensor)
	return ok
}

// listed reports whether the record lists the key.
func (c *Config) listed(name string) bool { _, ok := c.vals[name]; return ok }

// dims returns the sizes of a shape in letters. A size is a sum of products
// like HK+2GK or R/2: a number, letters, and a divisor, each of which may be
// missing.
func dims(shape string, size func(letter byte) int) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(shape, ",") {
		sum := 0
		for term := range strings.SplitSeq(part, "+") {
			n, err := product(term, size)
			if err != nil {
				return nil, fmt.Errorf("shape %q: %v", shape, err)
			}
			sum += n
		}
		out = append(out, sum)
	}
	return out, nil
}

func product(term string, size func(letter byte) int) (int, error) {
	body, div, hasDiv := strings.Cut(term, "/")
	letters := strings.TrimLeft(body, "0123456789")
	n := 1
	if digits := body[:len(body)-len(letters)]; digits != "" {
		n, _ = strconv.Atoi(digits)
	}
	if body == "" {
		return 0, fmt.Errorf("empty size")
	}
	for i := range len(letters) {
		if !strings.Contains("DVLHGKRFEXP", letters[i:i+1]) {
			return 0, fmt.Errorf("unknown letter %q", letters[i:i+1])
		}
		n *= size(letters[i])
	}
	if hasDiv {
		d, err := strconv.Atoi(div)
		if err != nil || d == 0 {
			return 0, fmt.Errorf("bad divisor %q", div)
		}
		n /= d
	}
	return n, nil
}
