package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Attrs are the constants of a value beside its arguments, e.g. eps of a norm,
// sorted by key. A value is int, float32, bool, string, []int or []float32:
// float32 so that the text form prints and reads every number exactly.
type Attrs []Attr

// Attr is one attribute.
type Attr struct {
	Key string
	Val any
}

// With returns the attributes with key set to val, in key order. The receiver
// is not changed.
func (a Attrs) With(key string, val any) Attrs {
	switch val.(type) {
	case int, float32, bool, string, []int, []float32:
	default:
		panic(fmt.Sprintf("graph: attribute %s: type %T is not allowed", key, val))
	}
	out := slices.Clone(a)
	i, found := slices.BinarySearchFunc(out, key, func(x Attr, k string) int { return strings.Compare(x.Key, k) })
	if found {
		out[i].Val = val
		return out
	}
	return slices.Insert(out, i, Attr{key, val})
}

// MakeAttrs returns attributes from alternating keys and values.
func MakeAttrs(pairs ...any) Attrs {
	var a Attrs
	for i := 0; i+1 < len(pairs); i += 2 {
		a = a.With(pairs[i].(string), pairs[i+1])
	}
	return a
}

// Get returns the value of key, nil when it is absent.
func (a Attrs) Get(key string) any {
	for _, x := range a {
		if x.Key == key {
			return x.Val
		}
	}
	return nil
}

// Int returns the int attribute key, or 0.
func (a Attrs) Int(key string) int { v, _ := a.Get(key).(int); return v }

// Float returns the float32 attribute key, or 0.
func (a Attrs) Float(key string) float32 { v, _ := a.Get(key).(float32); return v }

// Bool returns the bool attribute key, or false.
func (a Attrs) Bool(key string) bool { v, _ := a.Get(key).(bool); return v }

// Str returns the string attribute key, or "".
func (a Attrs) Str(key string) string { v, _ := a.Get(key).(string); return v }

// Ints returns the []int attribute key, or nil.
func (a Attrs) Ints(key string) []int { v, _ := a.Get(key).([]int); return v }

// Equal reports whether both lists hold the same keys and values.
func (a Attrs) Equal(b Attrs) bool {
	return slices.EqualFunc(a, b, func(x, y Attr) bool {
		return x.Key == y.Key && equalVal(x.Val, y.Val)
	})
}
