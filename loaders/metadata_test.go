package loaders

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
)

// allValues has one value of every type, with the extremes of the integers.
func allValues() *Metadata {
	m := NewMetadata()
	m.Set("u8", uint8(255))
	m.Set("i8", int8(-128))
	m.Set("u16", uint16(65535))
	m.Set("i16", int16(-32768))
	m.Set("u32", uint32(math.MaxUint32))
	m.Set("i32", int32(math.MinInt32))
	m.Set("f32", float32(0.1))
	m.Set("true", true)
	m.Set("false", false)
	m.Set("string", "a\x00\xff\n")
	m.Set("empty", "")
	m.Set("u64", uint64(math.MaxInt64))
	m.Set("u64max", uint64(math.MaxUint64))
	m.Set("i64", int64(math.MinInt64))
	m.Set("f64", math.Pi)
	m.Set("nan", float32(math.NaN()))
	m.Set("[]u8", []uint8{0, 255})
	m.Set("[]i8", []int8{-128, 127})
	m.Set("[]u16", []uint16{0, 65535})
	m.Set("[]i16", []int16{-32768, 32767})
	m.Set("[]u32", []uint32{0, math.MaxUint32})
	m.Set("[]i32", []int32{math.MinInt32, math.MaxInt32})
	m.Set("[]u64", []uint64{0, math.MaxInt64})
	m.Set("[]u64max", []uint64{math.MaxUint64})
	m.Set("[]i64", []int64{math.MinInt64, math.MaxInt64})
	m.Set("[]f32", []float32{0.1, float32(math.Inf(1))})
	m.Set("[]f64", []float64{0.5, -2})
	m.Set("[]f64inexact", []float64{0.1})
	m.Set("[]bool", []bool{true, false})
	m.Set("[]string", []string{"", "a", "ab", ""})
	m.Set("[]none", []string{})
	m.Set("[][]", []Value{ValueOf([]int32{1}), ValueOf([]string{"x", "y"}), ValueOf([]Value{ValueOf([]bool{})})})
	return m
}

// TestMetadataRoundTrip writes every type and reads it back.
func TestMetadataRoundTrip(t *testing.T) {
	want := allValues()
	b, _, _, err := ggufHeader(want, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenBytes("f", b)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if !slices.Equal(m.Meta.Keys(), want.Keys()) {
		t.Fatalf("keys %q, want %q", m.Meta.Keys(), want.Keys())
	}
	for _, key := range want.Keys() {
		g, _ := m.Meta.Value(key)
		w, _ := want.Value(key)
		if key == "nan" {
			if x, ok := g.Any().(float32); !ok || x == x {
				t.Errorf("nan read as %v", g)
			}
			continue
		}
		if !reflect.DeepEqual(plain(g), plain(w)) {
			t.Errorf("%s: %s %v, want %s %v", key, g.TypeName(), g, w.TypeName(), w)
		}
	}
}

// plain returns what v holds as Go values, also in arrays of arrays.
func plain(v Value) any {
	list, ok := v.Any().([]Value)
	if !ok {
		return v.Any()
	}
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = plain(e)
	}
	return out
}

// TestMetadataGetters asks every value by every getter: what the table does not
// name is a KeyError, an absent key never is.
func TestMetadataGetters(t *testing.T) {
	m := allValues()
	want := map[string]any{
		"Int u8": int64(255), "Int i8": int64(-128), "Int u16": int64(65535), "Int i16": int64(-32768),
		"Int u32": int64(math.MaxUint32), "Int i32": int64(math.MinInt32), "Int u64": int64(math.MaxInt64), "Int i64": int64(math.MinInt64),
		"Float f32": float64(float32(0.1)), "Float f64": math.Pi, "Float nan": math.NaN(),
		"Bool true": true, "Bool false": false, "String string": "a\x00\xff\n", "String empty": "",
		"Ints []u8": []int64{0, 255}, "Ints []i8": []int64{-128, 127}, "Ints []u16": []int64{0, 65535}, "Ints []i16": []int64{-32768, 32767},
		"Ints []u32": []int64{0, math.MaxUint32}, "Ints []i32": []int64{math.MinInt32, math.MaxInt32},
		"Ints []u64": []int64{0, math.MaxInt64}, "Ints []i64": []int64{math.MinInt64, math.MaxInt64},
		"Floats []f32": []float32{0.1, float32(math.Inf(1))}, "Floats []f64": []float32{0.5, -2},
		"Bools []bool": []bool{true, false}, "Strings []string": []string{"", "a", "ab", ""}, "Strings []none": []string{},
	}
	getters := map[string]func(key string) (any, bool, error){
		"Int":     func(k string) (any, bool, error) { v, ok, err := m.Int(k); return v, ok, err },
		"Float":   func(k string) (any, bool, error) { v, ok, err := m.Float(k); return v, ok, err },
		"Bool":    func(k string) (any, bool, error) { v, ok, err := m.Bool(k); return v, ok, err },
		"String":  func(k string) (any, bool, error) { v, ok, err := m.String(k); return v, ok, err },
		"Ints":    func(k string) (any, bool, error) { v, ok, err := m.Ints(k); return v, ok, err },
		"Floats":  func(k string) (any, bool, error) { v, ok, err := m.Floats(k); return v, ok, err },
		"Bools":   func(k string) (any, bool, error) { v, ok, err := m.Bools(k); return v, ok, err },
		"Strings": func(k string) (any, bool, error) { v, ok, err := m.Strings(k); return v, ok, err },
	}
	for name, get := range getters {
		for _, key := range m.Keys() {
			v, ok, err := get(key)
			w, right := want[name+" "+key]
			var e *KeyError
			switch {
			case !ok:
				t.Errorf("%s(%s) is absent", name, key)
			case right && (err != nil || fmt.Sprintf("%T %v", v, v) != fmt.Sprintf("%T %v", w, w)):
				t.Errorf("%s(%s) = %v, %v, want %v", name, key, v, err, w)
			case !right && !errors.As(err, &e):
				t.Errorf("%s(%s) = %v, %v, want a KeyError", name, key, v, err)
			}
		}
		if v, ok, err := get("absent"); ok || err != nil {
			t.Errorf("%s(absent) = %v, %v, %v", name, v, ok, err)
		}
	}
	_, _, err := m.Int("string")
	wantError(t, err, `gguf: key string: found string "a\x00\xff\n", expected an integer`)
	_, _, err = m.Strings("[]i32")
	wantError(t, err, "gguf: key []i32: found []i32 [-2147483648 2147483647] (2), expected an array of strings")
}

func TestMetadataEdit(t *testing.T) {
	m := NewMetadata()
	for i, k := range []string{"a", "b", "c", "a"} {
		m.Set(k, uint32(i))
	}
	c := m.Clone()
	c.Delete("b")
	c.Delete("nosuch")
	c.Set("d", "new")
	if !slices.Equal(m.Keys(), []string{"a", "b", "c"}) || !slices.Equal(c.Keys(), []string{"a", "c", "d"}) {
		t.Errorf("keys %q and %q", m.Keys(), c.Keys())
	}
	if v, _, _ := m.Int("a"); v != 3 {
		t.Errorf("a = %d, want the later 3", v)
	}
	if _, ok := c.Value("b"); ok || c.Len() != 3 {
		t.Error("b is still there")
	}
}

func TestValueOfPanics(t *testing.T) {
	deep := ValueOf([]uint32{})
	for range maxArrayDepth - 1 {
		deep = ValueOf([]Value{deep})
	}
	for _, v := range []any{nil, 1, []int{1}, uint(1), struct{}{}, []any{1}, []Value{ValueOf("scalar")}, []Value{deep}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("ValueOf(%T %v) did not panic", v, v)
				}
			}()
			ValueOf(v)
		}()
	}
}

func TestValueString(t *testing.T) {
	for want, v := range map[string]Value{
		"nothing":                 {},
		"7":                       ValueOf(uint8(7)),
		"0.1":                     ValueOf(float32(0.1)),
		`"a\n"`:                   ValueOf("a\n"),
		"[1 2 3 4 …] (5)":         ValueOf([]int32{1, 2, 3, 4, 5}),
		`["a" ""] (2)`:            ValueOf([]string{"a", ""}),
		"[[true] (1) [] (0)] (2)": ValueOf([]Value{ValueOf([]bool{true}), ValueOf([]string{})}),
		"[0 255] (2)":             ValueOf([]uint8{0, 255}),
	} {
		if got := v.String(); got != want {
			t.Errorf("String = %s, want %s", got, want)
		}
	}
	if e, ok := ValueOf([]bool{}).Elem(); e != TypeBool || !ok {
		t.Errorf("Elem = %s, %v", e, ok)
	}
	if _, ok := ValueOf("x").Elem(); ok {
		t.Error("a string has elements")
	}
}
