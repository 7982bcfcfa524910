package loaders

import (
	"fmt"
	"reflect"
	"strings"
)

// ValueType is the type of a metadata value. The numbers are those GGUF files
// use.
type ValueType uint32

// The types a metadata value can have.
const (
	TypeU8 ValueType = iota
	TypeI8
	TypeU16
	TypeI16
	TypeU32
	TypeI32
	TypeF32
	TypeBool
	TypeString
	TypeArray
	TypeU64
	TypeI64
	TypeF64
	numValueTypes
)

// valueTypes gives each type its name and the fewest bytes a value of it takes
// in a file; for all but strings and arrays that is the exact number.
var valueTypes = [numValueTypes]struct {
	name   string
	nbytes int
}{
	TypeU8:     {"u8", 1},
	TypeI8:     {"i8", 1},
	TypeU16:    {"u16", 2},
	TypeI16:    {"i16", 2},
	TypeU32:    {"u32", 4},
	TypeI32:    {"i32", 4},
	TypeF32:    {"f32", 4},
	TypeBool:   {"bool", 1},
	TypeString: {"string", 8},
	TypeArray:  {"array", 12},
	TypeU64:    {"u64", 8},
	TypeI64:    {"i64", 8},
	TypeF64:    {"f64", 8},
}

// String returns the short name: u8, f32, string, array.
func (t ValueType) String() string {
	if t >= numValueTypes {
		return fmt.Sprintf("type(%d)", uint32(t))
	}
	return valueTypes[t].name
}

// valueTypeNames lists the names of all types, for messages.
func valueTypeNames() []string {
	names := make([]string, numValueTypes)
	for t := range names {
		names[t] = valueTypes[t].name
	}
	return names
}

// maxArrayDepth is how deep arrays may nest: 1 is a flat array. Nothing
// published goes past 1; the bound keeps a hostile file off the stack.
const maxArrayDepth = 4

// Value is a metadata value: a number, bool, string or array together with its
// type. The zero Value has no type and stands for an absent key.
type Value struct {
	// v is a uint8, int8, …, float64, bool, string, a slice of one of these,
	// a *ggufTexts for a []string, or a []Value whose elements are all arrays.
	v any
}

// ValueOf returns v as a metadata value. v is a fixed-size number, bool, string,
// a slice of one of these, a Value, or a []Value of arrays nested at most four
// deep. A slice is not copied. ValueOf panics on any other type, int among them,
// because its size in a file would be a guess.
func ValueOf(v any) Value {
	if val, ok := v.(Value); ok {
		return val
	}
	val := Value{v}
	if _, _, ok := val.types(); !ok {
		panic(fmt.Sprintf("loaders: a %T has no form in a file; use a type of fixed size", v))
	}
	if val.depth() > maxArrayDepth {
		panic("loaders: arrays nest too deep")
	}
	return val
}

// depth returns how many arrays lie inside each other, 0 for a scalar.
func (v Value) depth() int {
	t, elem, _ := v.types()
	if t != TypeArray {
		return 0
	}
	if elem != TypeArray {
		return 1
	}
	deepest := 0
	for _, e := range v.v.([]Value) {
		if e.Type() != TypeArray {
			panic("loaders: a []Value may hold arrays only")
		}
		deepest = max(deepest, e.depth())
	}
	return 1 + deepest
}

// types returns the type and, for an array, the type of its elements.
func (v Value) types() (t, elem ValueType, ok bool) {
	switch v.v.(type) {
	case uint8:
		return TypeU8, 0, true
	case int8:
		return TypeI8, 0, true
	case uint16:
		return TypeU16, 0, true
	case int16:
		return TypeI16, 0, true
	case uint32:
		return TypeU32, 0, true
	case int32:
		return TypeI32, 0, true
	case float32:
		return TypeF32, 0, true
	case bool:
		return TypeBool, 0, true
	case string:
		return TypeString, 0, true
	case uint64:
		return TypeU64, 0, true
	case int64:
		return TypeI64, 0, true
	case float64:
		return TypeF64, 0, true
	case []uint8:
		return TypeArray, TypeU8, true
	case []int8:
		return TypeArray, TypeI8, true
	case []uint16:
		return TypeArray, TypeU16, true
	case []int16:
		return TypeArray, TypeI16, true
	case []uint32:
		return TypeArray, TypeU32, true
	case []int32:
		return TypeArray, TypeI32, true
	case []float32:
		return TypeArray, TypeF32, true
	case []bool:
		return TypeArray, TypeBool, true
	case []string, *ggufTexts:
		return TypeArray, TypeString, true
	case []uint64:
		return TypeArray, TypeU64, true
	case []int64:
		return TypeArray, TypeI64, true
	case []float64:
		return TypeArray, TypeF64, true
	case []Value:
		return TypeArray, TypeArray, true
	}
	return 0, 0, false
}

// Type returns the value's type. Calling it on the zero Value panics.
func (v Value) Type() ValueType {
	t, _, ok := v.types()
	if !ok {
		panic("loaders: Type of an absent value")
	}
	return t
}

// Elem returns the type of an array's elements, and false for a scalar.
func (v Value) Elem() (ValueType, bool) {
	t, elem, ok := v.types()
	return elem, ok && t == TypeArray
}

// Len returns the number of elements of an array, and 0 for a scalar.
func (v Value) Len() int {
	if l, ok := v.v.(*ggufTexts); ok {
		return l.n
	}
	if _, ok := v.Elem(); ok {
		return reflect.ValueOf(v.v).Len()
	}
	return 0
}

// Any returns the value as the Go type it was stored with: uint32 for u32,
// []string for an array of strings, []Value for an array of arrays, nil for the
// zero Value. Slices are shared; they must not be changed.
func (v Value) Any() any {
	if l, ok := v.v.(*ggufTexts); ok {
		return l.split()
	}
	return v.v
}

// TypeName returns the type in words: u32, string, or []f32 for an array.
func (v Value) TypeName() string {
	t, elem, ok := v.types()
	switch {
	case !ok:
		return "nothing"
	case t == TypeArray:
		return "[]" + elem.String()
	}
	return t.String()
}

// String returns the value on one short line: strings quoted and cut, arrays by
// their first elements and length.
func (v Value) String() string {
	const shown = 4
	switch a := v.v.(type) {
	case nil:
		return "nothing"
	case string:
		return quoteText(a)
	}
	if _, ok := v.Elem(); !ok {
		return fmt.Sprint(v.v)
	}
	array := reflect.ValueOf(v.v)
	if l, ok := v.v.(*ggufTexts); ok {
		array = reflect.ValueOf(l.first(shown))
	}
	items := make([]string, 0, shown+1)
	for i := range min(v.Len(), shown) {
		item := Value{array.Index(i).Interface()}
		if inner, ok := item.v.(Value); ok {
			item = inner
		}
		items = append(items, item.String())
	}
	if v.Len() > shown {
		items = append(items, "…")
	}
	return fmt.Sprintf("[%s] (%d)", strings.Join(items, " "), v.Len())
}
