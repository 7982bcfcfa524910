package graph

import (
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

// floatText prints the shortest decimal that reads back as the same float32.
func floatText(f float32) string {
	s := strconv.FormatFloat(float64(f), 'g', -1, 32)
	if strings.ContainsAny(s, ".eIN") {
		return s
	}
	return s + ".0"
}

func floatsText(fs []float32) string {
	parts := make([]string, len(fs))
	for i, f := range fs {
		parts[i] = floatText(f)
	}
	return "[" + strings.Join(parts, " ") + "]"
}
