package loaders

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// maxNestedArrays bounds the arrays inside arrays of one file. An empty one
// takes 12 bytes of the file and several times that in memory, so the bytes
// that remain are no bound worth having here.
const maxNestedArrays = 1 << 16

// ggufReader walks the header of a file. The first failure stays in err and
// later reads return zeros, so that a record is read field by field and
// checked once; loops over counts check err in every round.
type ggufReader struct {
	data   []byte
	pos    int
	nested int // arrays inside arrays read so far
	err    error
}

func (r *ggufReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *ggufReader) remaining() int { return len(r.data) - r.pos }

// take returns the next n bytes as a view.
func (r *ggufReader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > r.remaining() {
		r.fail("%d bytes needed at offset %d, but the file ends at %d", n, r.pos, len(r.data))
		return nil
	}
	b := r.data[r.pos : r.pos+n]
	r.pos += n
	return b
}

func (r *ggufReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *ggufReader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads a 64-bit count of records of at least least bytes each. What the
// file cannot hold is refused before anything is allocated for it.
func (r *ggufReader) count(what string, least int) int {
	n := r.u64()
	if r.err == nil && n > uint64(r.remaining()/least) {
		r.fail("%s %d is more than the %d bytes that remain can hold", what, n, r.remaining())
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// bytes reads a string's length and returns its bytes as a view.
func (r *ggufReader) bytes() []byte {
	return r.take(r.count("string length", 1))
}

// str reads a string and copies it out of the mapping.
func (r *ggufReader) str() string { return string(r.bytes()) }

// value reads a value of type t. depth is the number of arrays around it.
func (r *ggufReader) value(t ValueType, depth int) Value {
	switch t {
	case TypeString:
		return Value{r.str()}
	case TypeArray:
		return r.array(depth + 1)
	}
	if t >= numValueTypes {
		if r.err == nil {
			r.err = &UnsupportedError{What: "value type", Name: fmt.Sprint(uint32(t)), Known: valueTypeNames()}
		}
		return Value{}
	}
	b := r.take(valueTypes[t].nbytes)
	if b == nil {
		return Value{}
	}
	le := binary.LittleEndian
	switch t {
	case TypeU8:
		return Value{b[0]}
	case TypeI8:
		return Value{int8(b[0])}
	case TypeU16:
		return Value{le.Uint16(b)}
	case TypeI16:
		return Value{int16(le.Uint16(b))}
	case TypeU32:
		return Value{le.Uint32(b)}
	case TypeI32:
		return Value{int32(le.Uint32(b))}
	case TypeF32:
		return Value{math.Float32frombits(le.Uint32(b))}
	case TypeU64:
		return Value{le.Uint64(b)}
	case TypeI64:
		return Value{int64(le.Uint64(b))}
	case TypeF64:
		return Value{math.Float64frombits(le.Uint64(b))}
	}
	// What is left is a bool: one byte, and the format calls any byte but 0 and
	// 1 invalid.
	if b[0] > 1 {
		r.fail("bool is byte %d, expected 0 or 1", b[0])
	}
	return Value{b[0] == 1}
}

// array reads an array's element type, length and elements. depth counts this
// array: 1 for a flat one.
func (r *ggufReader) array(depth int) Value {
	if depth > maxArrayDepth {
		r.fail("arrays nest more than %d deep", maxArrayDepth)
		return Value{}
	}
	t := ValueType(r.u32())
	if r.err == nil && t >= numValueTypes {
		r.err = &UnsupportedError{What: "array element type", Name: fmt.Sprint(uint32(t)), Known: valueTypeNames()}
	}
	if r.err != nil {
		return Value{}
	}
	n := r.count("array length", valueTypes[t].nbytes)
	if r.err != nil {
		return Value{}
	}
	switch t {
	case TypeU8:
		return numbers[uint8](r, n, t)
	case TypeI8:
		return numbers[int8](r, n, t)
	case TypeU16:
		return numbers[uint16](r, n, t)
	case TypeI16:
		return numbers[int16](r, n, t)
	case TypeU32:
		return numbers[uint32](r, n, t)
	case TypeI32:
		return numbers[int32](r, n, t)
	case TypeF32:
		return numbers[float32](r, n, t)
	case TypeU64:
		return numbers[uint64](r, n, t)
	case TypeI64:
		return numbers[int64](r, n, t)
	case TypeF64:
		return numbers[float64](r, n, t)
	case TypeBool:
		b := r.take(n)
		out := make([]bool, len(b))
		for i, x := range b {
			if x > 1 {
				r.fail("bool %d of the array is byte %d, expected 0 or 1", i, x)
			}
			out[i] = x == 1
		}
		return Value{out}
	case TypeString:
		return r.strings(n)
	}
	if r.nested += n; r.nested > maxNestedArrays {
		r.fail("more than %d arrays inside arrays", maxNestedArrays)
		return Value{}
	}
	out := make([]Value, n)
	for i := range out {
		if out[i] = r.array(depth + 1); r.err != nil {
			return Value{}
		}
	}
	return Value{out}
}

// numbers reads n numbers of type t, whose Go type is T.
func numbers[T any](r *ggufReader, n int, t ValueType) Value {
	b := r.take(n * valueTypes[t].nbytes) // count proved that it fits
	out := largeSlice[T](n)
	if b == nil {
		return Value{out}
	}
	if _, err := binary.Decode(b, binary.LittleEndian, out); err != nil {
		r.fail("array of %s: %w", t, err)
	}
	return Value{out}
}

// strings reads n strings into one allocation. They are copied, with the lengths
// between, so that they stay valid after the mapping is closed.
func (r *ggufReader) strings(n int) Value {
	start := r.pos
	for i := range n {
		left := r.data[r.pos:]
		if len(left) < 8 || binary.LittleEndian.Uint64(left) > uint64(len(left)-8) {
			r.bytes() // which says what is wrong
			r.err = fmt.Errorf("string %d of the array: %w", i, r.err)
			return Value{}
		}
		r.pos += 8 + int(binary.LittleEndian.Uint64(left))
	}
	list := newGGUFTexts(r.data[start:r.pos], n)
	if !list.intact() {
		r.fail("the array of strings changed while it was read")
		return Value{}
	}
	return Value{list}
}

// appendValue appends v as GGUF stores it, without its type.
func appendValue(b []byte, v Value) []byte {
	switch x := v.Any().(type) {
	case string:
		return appendString(b, x)
	case []string:
		b = appendArray(b, TypeString, len(x))
		for _, s := range x {
			b = appendString(b, s)
		}
		return b
	case []Value:
		b = appendArray(b, TypeArray, len(x))
		for _, e := range x {
			b = appendValue(b, e)
		}
		return b
	}
	if elem, ok := v.Elem(); ok {
		b = appendArray(b, elem, v.Len())
	}
	b, err := binary.Append(b, binary.LittleEndian, v.v)
	if err != nil { // all types that are left have a fixed size
		panic(errors.Join(errors.New("loaders: value without a form in a file"), err))
	}
	return b
}

func appendArray(b []byte, elem ValueType, n int) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(elem))
	return binary.LittleEndian.AppendUint64(b, uint64(n))
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}
