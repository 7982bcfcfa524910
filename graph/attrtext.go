package graph

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// attrText prints an attribute value so that parseAttr reads the same value and
// the same type: ints as digits, floats always with a point, exponent or name.
func attrText(v any) string {
	switch v := v.(type) {
	case int:
		return strconv.Itoa(v)
	case float32:
		return floatText(v)
	case bool:
		return strconv.FormatBool(v)
	case string:
		return strconv.Quote(v)
	case []int:
		parts := make([]string, len(v))
		for i, n := range v {
			parts[i] = strconv.Itoa(n)
		}
		return "[" + strings.Join(parts, " ") + "]"
	case []float32:
		return "f" + floatsText(v)
	}
	return "?"
}

// attrType names the type of an attribute value in messages.
func attrType(v any) string {
	switch v.(type) {
	case int:
		return "int"
	case float32:
		return "float"
	case bool:
		return "bool"
	case string:
		return "string"
	case []int:
		return "list of ints"
	case []float32:
		return "list of floats"
	}
	return fmt.Sprintf("%T", v)
}

// floatText prints the shortest decimal that reads back as the same float32.
// Every NaN prints as NaN: the bits of its payload are not kept.
func floatText(f float32) string {
	s := strconv.FormatFloat(float64(f), 'g', -1, 32)
	if strings.ContainsAny(s, ".eIN") {
		return s
	}
	return s + ".0"
}

func floatsText(fs []float32) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, f := range fs {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(floatText(f))
	}
	b.WriteByte(']')
	return b.String()
}

// parseAttr reads what attrText prints.
func parseAttr(s string) (any, error) {
	switch {
	case s == "true" || s == "false":
		return s == "true", nil
	case strings.HasPrefix(s, `"`):
		text, err := strconv.Unquote(s)
		if err != nil {
			return nil, fmt.Errorf("%s is not a quoted string", s)
		}
		return text, nil
	case strings.HasPrefix(s, "f["):
		return parseFloats(s[1:])
	case strings.HasPrefix(s, "["):
		list := []int{}
		for f := range strings.FieldsSeq(strings.Trim(s, "[]")) {
			n, err := strconv.Atoi(f)
			if err != nil {
				return nil, fmt.Errorf("%q is not an int", f)
			}
			list = append(list, n)
		}
		return list, nil
	case strings.ContainsAny(s, ".eIN"):
		return parseFloat(s)
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number, string, bool or list", s)
	}
	return n, nil
}

// parseFloats reads what floatsText prints.
func parseFloats(s string) ([]float32, error) {
	list := []float32{}
	for f := range strings.FieldsSeq(strings.Trim(s, "[]")) {
		x, err := parseFloat(f)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

func parseFloat(s string) (float32, error) {
	x, err := strconv.ParseFloat(s, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a float", s)
	}
	return float32(x), nil
}

// equalVal compares two attribute values: same type, same bits.
func equalVal(a, b any) bool {
	switch a := a.(type) {
	case int:
		b, ok := b.(int)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case string:
		b, ok := b.(string)
		return ok && a == b
	case float32:
		b, ok := b.(float32)
		return ok && math.Float32bits(a) == math.Float32bits(b)
	}
	return attrText(a) == attrText(b) && attrType(a) == attrType(b)
}
