package loaders

import (
	"fmt"
	"math"
)

// Metadata is the list of keys and values of a model file, in the file's order.
//
// The getters take a key and return its value, whether the key is there, and an
// error if it is there with another type. They convert between integer widths
// when the number fits and never between kinds: an integer is not a float, a
// number is not a bool, a scalar is not an array. An absent key is no error.
//
// Slices that a getter returns may be shared with the metadata and must not be
// changed. Everything stays valid after the model is closed.
type Metadata struct {
	file   string // named by errors; empty if made in memory
	keys   []string
	values map[string]Value
}

// NewMetadata returns metadata without keys.
func NewMetadata() *Metadata {
	return &Metadata{values: make(map[string]Value)}
}

// Set gives key the value v, at the end of the list if the key is new. v is
// whatever ValueOf takes; like ValueOf, Set panics on a type that files do not
// have, and on an empty key.
func (m *Metadata) Set(key string, v any) {
	if key == "" {
		panic("loaders: empty metadata key")
	}
	m.put(key, ValueOf(v))
}

func (m *Metadata) put(key string, v Value) {
	if _, ok := m.values[key]; !ok {
		m.keys = append(m.keys, key)
	}
	m.values[key] = v
}

// Delete removes key if it is there.
func (m *Metadata) Delete(key string) {
	if _, ok := m.values[key]; !ok {
		return
	}
	delete(m.values, key)
	for i, k := range m.keys {
		if k == key {
			m.keys = append(m.keys[:i:i], m.keys[i+1:]...)
			return
		}
	}
}

// Clone returns a copy that can be changed apart from m. Values are shared.
func (m *Metadata) Clone() *Metadata {
	c := &Metadata{
		file:   m.file,
		keys:   append([]string(nil), m.keys...),
		values: make(map[string]Value, len(m.values)),
	}
	for k, v := range m.values {
		c.values[k] = v
	}
	return c
}

// Len returns the number of keys.
func (m *Metadata) Len() int { return len(m.keys) }

// Keys returns the keys in the file's order. The caller must not change it.
func (m *Metadata) Keys() []string { return m.keys }

// Value returns the value of key, and whether the key is there.
func (m *Metadata) Value(key string) (Value, bool) {
	v, ok := m.values[key]
	return v, ok
}

// Int returns an integer of any width. It fails for a u64 above 2^63-1.
func (m *Metadata) Int(key string) (v int64, ok bool, err error) {
	return get(m, key, "an integer", toInt)
}

// Float returns an f32 or f64. NaN and infinities are returned as they are.
func (m *Metadata) Float(key string) (v float64, ok bool, err error) {
	return get(m, key, "a float", func(v any) (float64, bool) {
		switch x := v.(type) {
		case float32:
			return float64(x), true
		case float64:
			return x, true
		}
		return 0, false
	})
}

// Bool returns a bool.
func (m *Metadata) Bool(key string) (v bool, ok bool, err error) {
	return get(m, key, "a bool", as[bool])
}

// String returns a string.
func (m *Metadata) String(key string) (v string, ok bool, err error) {
	return get(m, key, "a string", as[string])
}

// Ints returns an array of integers of any width. It fails if one is a u64
// above 2^63-1.
func (m *Metadata) Ints(key string) (v []int64, ok bool, err error) {
	return get(m, key, "an array of integers", func(v any) ([]int64, bool) {
		switch a := v.(type) {
		case []int64:
			return a, true
		case []uint8:
			return widen(a), true
		case []int8:
			return widen(a), true
		case []uint16:
			return widen(a), true
		case []int16:
			return widen(a), true
		case []uint32:
			return widen(a), true
		case []int32:
			return widen(a), true
		case []uint64:
			for _, x := range a {
				if x > math.MaxInt64 {
					return nil, false
				}
			}
			return widen(a), true
		}
		return nil, false
	})
}

// Floats returns an array of f32, or of f64 if every number of it is exact in
// f32.
func (m *Metadata) Floats(key string) (v []float32, ok bool, err error) {
	return get(m, key, "an array of f32", func(v any) ([]float32, bool) {
		switch a := v.(type) {
		case []float32:
			return a, true
		case []float64:
			out := largeSlice[float32](len(a))
			for i, x := range a {
				out[i] = float32(x)
				if float64(out[i]) != x && x == x {
					return nil, false
				}
			}
			return out, true
		}
		return nil, false
	})
}

// Bools returns an array of bools.
func (m *Metadata) Bools(key string) (v []bool, ok bool, err error) {
	return get(m, key, "an array of bools", as[[]bool])
}

// Strings returns an array of strings.
func (m *Metadata) Strings(key string) (v []string, ok bool, err error) {
	return get(m, key, "an array of strings", func(v any) ([]string, bool) {
		if l, ok := v.(*ggufTexts); ok {
			return l.split(), true
		}
		return as[[]string](v)
	})
}

// get looks key up and converts its value, or says what it found instead.
func get[T any](m *Metadata, key, want string, convert func(any) (T, bool)) (T, bool, error) {
	var zero T
	v, ok := m.values[key]
	if !ok {
		return zero, false, nil
	}
	x, ok := convert(v.v)
	if !ok {
		return zero, true, &KeyError{File: m.file, Key: key, Got: fmt.Sprintf("%s %s", v.TypeName(), v), Want: want}
	}
	return x, true, nil
}

func as[T any](v any) (T, bool) {
	x, ok := v.(T)
	return x, ok
}

func toInt(v any) (int64, bool) {
	switch x := v.(type) {
	case uint8:
		return int64(x), true
	case int8:
		return int64(x), true
	case uint16:
		return int64(x), true
	case int16:
		return int64(x), true
	case uint32:
		return int64(x), true
	case int32:
		return int64(x), true
	case uint64:
		return int64(x), x <= math.MaxInt64
	case int64:
		return x, true
	}
	return 0, false
}

// widen converts integers that all fit.
func widen[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64](a []T) []int64 {
	out := largeSlice[int64](len(a))
	for i, x := range a {
		out[i] = int64(x)
	}
	return out
}
