package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// maxDepth bounds how deep JSON and templates may nest. Deeper input is hostile:
// the readers are recursive.
const maxDepth = 200

var errDepth = fmt.Errorf("nested more than %d deep", maxDepth)

// decodeJSON reads one JSON value for a template. Objects keep the order of
// their keys, integers stay integers.
func decodeJSON(data []byte) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return jinja.Undefined(), err
	}
	if _, err := d.Token(); err != io.EOF {
		return jinja.Undefined(), errors.New("more than one JSON value")
	}
	return v, nil
}

func decodeValue(d *json.Decoder, depth int) (jinja.Value, error) {
	if depth > maxDepth {
		return jinja.Undefined(), errDepth
	}
	tok, err := d.Token()
	if err != nil {
		return jinja.Undefined(), err
	}
	switch t := tok.(type) {
	case json.Delim:
		if t == '[' {
			items := []jinja.Value{}
			for d.More() {
				v, err := decodeValue(d, depth+1)
				if err != nil {
					return jinja.Undefined(), err
				}
				items = append(items, v)
			}
			_, err := d.Token()
			return jinja.NewList(items), err
		}
		obj := jinja.NewDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return jinja.Undefined(), err
			}
			v, err := decodeValue(d, depth+1)
			if err != nil {
				return jinja.Undefined(), err
			}
			obj.AsDict().Set(key.(string), v)
		}
		_, err := d.Token()
		return obj, err
	case json.Number:
		return jinja.FromGoValue(t), nil
	}
	return jinja.FromGoValue(tok), nil
}

// jsonStyle says how a value is written as JSON. The zero value with separators
// is what Python's json.dumps writes with ensure_ascii=False.
type jsonStyle struct {
	item, key string // separators
	indent    string // of one level; nothing is put on its own line without it
	pretty    bool
	sort      bool
	ascii     bool                // escape what is not ASCII
	keep      func(rune) bool     // not escaped even then
	plain     func(string) string // undoes marks, for sorting; nil is none
}

func pythonJSON() jsonStyle { return jsonStyle{item: ", ", key: ": "} }

// appendJSON writes v the way Python's json.dumps does, byte for byte. NaN and
// infinities are written in words, as there.
func appendJSON(b []byte, v jinja.Value, s *jsonStyle, depth int) ([]byte, error) {
	if depth > maxDepth {
		return b, errDepth
	}
	var err error
	switch {
	case v.IsNone():
		return append(b, "null"...), nil
	case v.IsBool():
		return strconv.AppendBool(b, v.AsBool()), nil
	case v.IsInt():
		return strconv.AppendInt(b, v.AsInt(), 10), nil
	case v.IsFloat():
		return append(b, floatText(v.AsFloat(), true)...), nil
	case v.IsString():
		return appendJSONString(b, v.AsString(), s), nil
	case v.IsList():
		items := v.AsList().Items
		if len(items) == 0 {
			return append(b, "[]"...), nil
		}
		b = append(b, '[')
		for i, x := range items {
			b = s.gap(b, i, depth+1)
			if b, err = appendJSON(b, x, s, depth+1); err != nil {
				return b, err
			}
		}
		return append(s.line(b, depth), ']'), nil
	case v.IsDict():
		d := v.AsDict()
		if d.Len() == 0 {
			return append(b, "{}"...), nil
		}
		keys := d.OrderedKeys()
		if s.sort {
			sortKeys(keys, s.plain, false)
		}
		b = append(b, '{')
		for i, k := range keys {
			b = s.gap(b, i, depth+1)
			b = appendJSONString(b, k, s)
			b = append(b, s.key...)
			if b, err = appendJSON(b, d.Data[k], s, depth+1); err != nil {
				return b, err
			}
		}
		return append(s.line(b, depth), '}'), nil
	case v.IsUndefined():
		return b, errors.New("an undefined value has no JSON form")
	}
	return b, errors.New("a function has no JSON form")
}

// gap goes between items: a separator, and a new line when pretty.
func (s *jsonStyle) gap(b []byte, i, depth int) []byte {
	if i > 0 {
		b = append(b, s.item...)
	}
	return s.line(b, depth)
}

func (s *jsonStyle) line(b []byte, depth int) []byte {
	if !s.pretty {
		return b
	}
	b = append(b, '\n')
	for range depth {
		b = append(b, s.indent...)
	}
	return b
}

func appendJSONString(b []byte, text string, s *jsonStyle) []byte {
	b = append(b, '"')
	for i, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < 0x20:
			b = fmt.Appendf(b, `\u%04x`, r)
		case r == utf8.RuneError && text[i] != 0xEF: // a byte that is no character
			b = append(b, text[i])
		case s.ascii && r > 0x7E && !(s.keep != nil && s.keep(r)):
			if r > 0xFFFF {
				r -= 0x10000
				b = fmt.Appendf(b, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
			} else {
				b = fmt.Appendf(b, `\u%04x`, r)
			}
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// floatText writes a float as Python's repr does: the shortest digits that read
// back, with a point, and an exponent below 1e-4 and from 1e16 on. In JSON, NaN
// and infinity are the words JavaScript uses.
func floatText(f float64, json bool) string {
	switch {
	case math.IsNaN(f) && json:
		return "NaN"
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		word := "inf"
		if json {
			word = "Infinity"
		}
		if f < 0 {
			word = "-" + word
		}
		return word
	case f == 0:
		if math.Signbit(f) {
			return "-0.0"
		}
		return "0.0"
	}
	if a := math.Abs(f); a < 1e-4 || a >= 1e16 {
		return strconv.FormatFloat(f, 'e', -1, 64) // two digits of exponent at least, as there
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// printText returns what {{ v }} prints: Python's str.
func printText(v jinja.Value) string {
	switch {
	case v.IsString():
		return v.AsString()
	case v.IsUndefined():
		return ""
	}
	return string(appendRepr(nil, v, 0))
}

// appendRepr writes v as Python's repr does.
func appendRepr(b []byte, v jinja.Value, depth int) []byte {
	if depth > maxDepth {
		return append(b, "..."...)
	}
	switch {
	case v.IsNone():
		return append(b, "None"...)
	case v.IsBool() && v.AsBool():
		return append(b, "True"...)
	case v.IsBool():
		return append(b, "False"...)
	case v.IsInt():
		return strconv.AppendInt(b, v.AsInt(), 10)
	case v.IsFloat():
		return append(b, floatText(v.AsFloat(), false)...)
	case v.IsString():
		return appendReprString(b, v.AsString())
	case v.IsList():
		b = append(b, '[')
		for i, x := range v.AsList().Items {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendRepr(b, x, depth+1)
		}
		return append(b, ']')
	case v.IsDict():
		b = append(b, '{')
		for i, k := range v.AsDict().Keys {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendReprString(b, k)
			b = append(b, ": "...)
			b = appendRepr(b, v.AsDict().Data[k], depth+1)
		}
		return append(b, '}')
	case v.IsUndefined():
		return append(b, "Undefined"...)
	}
	return append(b, v.String()...)
}

func appendReprString(b []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b = append(b, quote)
	for i, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < 0x20 || r == 0x7F:
			b = fmt.Appendf(b, `\x%02x`, r)
		case r == utf8.RuneError && s[i] != 0xEF:
			b = append(b, s[i])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, quote)
}
