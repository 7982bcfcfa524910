package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxDepth is how deep a body may nest. Schemas of tools are the deepest things
// that clients send; published ones stay below 20.
const maxDepth = 100

// readBody reads a request's body whole, bounded in size and in time.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, who *client) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type",
			Message: fmt.Sprintf("the body has the content type %q, want application/json (curl: -H 'Content-Type: application/json')", quote(r.Header.Get("Content-Type")))}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Message: fmt.Sprintf("the body has the content encoding %q; send it as it is", quote(e))}
	}
	large := &Error{Status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Message: fmt.Sprintf("the body is larger than the %d bytes this server reads (--max-body)", s.o.MaxBody)}
	if r.ContentLength > s.o.MaxBody {
		return nil, large
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(s.o.ReadTimeout))
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.o.MaxBody))
	var most *http.MaxBytesError
	switch {
	case errors.As(err, &most):
		return nil, large
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &Error{Status: http.StatusRequestTimeout, Code: "body_too_slow", Message: fmt.Sprintf("the body did not arrive within %s (--read-timeout)", s.o.ReadTimeout)}
	case err != nil:
		return nil, badRequest("", "body_incomplete", "reading the body: %v", err)
	}
	who.read = true
	// A deadline that passes while the answer is written would look like a client
	// that left.
	rc.SetReadDeadline(time.Time{})
	return data, checkText(data)
}

// checkText refuses what would cost memory or meaning before it is decoded: bytes
// that are not UTF-8, and deep nesting.
func checkText(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return badRequest("", "invalid_json", "the body is empty, want a JSON object")
	}
	if !utf8.Valid(data) {
		at := 0
		for at < len(data) {
			r, n := utf8.DecodeRune(data[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return badRequest("", "invalid_utf8", "the body is not UTF-8 at byte %d (0x%02X)", at, data[at])
	}
	deep := -1
	outside(data, func(i int, c byte, depth int) {
		if depth > maxDepth && deep < 0 {
			deep = i
		}
	})
	if deep >= 0 {
		return badRequest("", "nested_too_deep", "the body nests deeper than %d at byte %d", maxDepth, deep)
	}
	return nil
}

// outside calls f with the bytes of JSON text that are not in strings, and how
// many brackets are open after each.
func outside(data []byte, f func(i int, c byte, depth int)) {
	depth, quoted, escape := 0, false, false
	for i, c := range data {
		switch {
		case escape:
			escape = false
			continue
		case quoted:
			escape = c == '\\'
			quoted = c != '"'
			continue
		case c == '"':
			quoted = true
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		f(i, c, depth)
	}
}

// object is a JSON object whose fields are read by name. The first field that is
// not as it should be is kept as the error; later reads return zero values, so
// that requests are read without a check after every field.
type object struct {
	path  string // "" at the top, else as in tools[0].function
	keys  []string
	value map[string]json.RawMessage
	seen  map[string]bool
	first *firstError
}

// firstError is shared by all objects of a request.
type firstError struct{ err *Error }

func (f *firstError) set(e *Error) {
	if f.err == nil {
		f.err = e
	}
}

// parseObject reads the object of a body.
func parseObject(data []byte) (*object, error) {
	o := &object{first: &firstError{}}
	o.parse(data)
	if o.first.err != nil {
		return nil, o.first.err
	}
	return o, nil
}

// parse fills o from data, which may come from outside.
func (o *object) parse(data []byte) {
	o.value, o.seen = map[string]json.RawMessage{}, map[string]bool{}
	what := o.path
	if what == "" {
		what = "the body"
	}
	d := json.NewDecoder(bytes.NewReader(data))
	syntax := func(err error) {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends too early")
		}
		o.first.set(badRequest(o.path, "invalid_json", "%s is not JSON: %s (at byte %d)", what, strings.TrimPrefix(err.Error(), "json: "), d.InputOffset()))
	}
	if !json.Valid(data) {
		var any json.RawMessage
		if err := json.Unmarshal(data, &any); err != nil {
			var s *json.SyntaxError
			if errors.As(err, &s) {
				o.first.set(badRequest(o.path, "invalid_json", "%s is not JSON: %v (at byte %d)", what, s, s.Offset))
				return
			}
			syntax(err)
			return
		}
	}
	if c := bytes.TrimSpace(data); len(c) == 0 || c[0] != '{' {
		o.first.set(badRequest(o.path, "invalid_type", "%s is %s, want an object", what, kindOf(data)))
		return
	}
	if _, err := d.Token(); err != nil {
		syntax(err)
		return
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			syntax(err)
			return
		}
		name := key.(string) // the decoder lets nothing else pass here
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			syntax(err)
			return
		}
		if _, ok := o.value[name]; ok {
			o.first.set(badRequest(o.at(name), "duplicate_field", "%s is given twice", quote(o.at(name))))
			return
		}
		o.keys = append(o.keys, name)
		o.value[name] = raw
	}
}

// at returns the path of a field.
func (o *object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// kindOf names what a piece of JSON is.
func kindOf(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch c := raw[0]; {
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == '"':
		return "a string"
	case c == 't' || c == 'f':
		return string(raw)
	case c == 'n':
		return "null"
	}
	return "the number " + quote(string(raw))
}

// raw returns a field as it is; null is the same as none.
func (o *object) raw(name string) (json.RawMessage, bool) {
	o.seen[name] = true
	v, ok := o.value[name]
	if !ok || string(v) == "null" {
		return nil, false
	}
	return v, true
}

func (o *object) has(name string) bool {
	v, ok := o.value[name]
	return ok && string(v) != "null"
}

func (o *object) wrong(name string, raw []byte, want string) {
	o.first.set(badRequest(o.at(name), "invalid_type", "%s is %s, want %s", o.at(name), kindOf(raw), want))
}

// float reads a number from lo to hi.
func (o *object) float(name string, lo, hi float64) (float64, bool) {
	raw, ok := o.raw(name)
	if !ok {
		return 0, false
	}
	want := fmt.Sprintf("a number from %g to %g", lo, hi)
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		o.wrong(name, raw, want)
		return 0, false
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || v < lo || v > hi {
		o.first.set(badRequest(o.at(name), "out_of_range", "%s is %s, want %s", o.at(name), quote(string(raw)), want))
		return 0, false
	}
	return v, true
}

// integer reads a whole number from lo to hi.
func (o *object) integer(name string, lo, hi int64) (int64, bool) {
	raw, ok := o.raw(name)
	if !ok {
		return 0, false
	}
	v, e := integer(o.at(name), raw, lo, hi)
	if e != nil {
		o.first.set(e)
	}
	return v, e == nil
}

func integer(path string, raw []byte, lo, hi int64) (int64, *Error) {
	raw = bytes.TrimSpace(raw)
	want := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, badRequest(path, "invalid_type", "%s is %s, want %s", path, kindOf(raw), want)
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return 0, badRequest(path, "invalid_type", "%s is %s, want %s", path, quote(string(raw)), want)
	case err != nil || v < lo || v > hi:
		return 0, badRequest(path, "out_of_range", "%s is %s, want %s", path, quote(string(raw)), want)
	}
	return v, nil
}

// boolean reads true or false.
func (o *object) boolean(name string) (v, ok bool) {
	raw, ok := o.raw(name)
	if !ok {
		return false, false
	}
	switch string(raw) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	o.wrong(name, raw, "true or false")
	return false, false
}

// text reads a string.
func (o *object) text(name string) (string, bool) {
	raw, ok := o.raw(name)
	if !ok {
		return "", false
	}
	var v string
	if raw[0] != '"' || json.Unmarshal(raw, &v) != nil {
		o.wrong(name, raw, "a string")
		return "", false
	}
	return v, true
}

// choice reads a string that must be one of several.
func (o *object) choice(name string, known ...string) (string, bool) {
	v, ok := o.text(name)
	if !ok {
		return "", false
	}
	for _, k := range known {
		if v == k {
			return v, true
		}
	}
	o.first.set(badRequest(o.at(name), "unknown_value", "%s is %q; known: %s", o.at(name), quote(v), strings.Join(known, ", ")))
	return "", false
}

// list reads a list of at most that many elements.
func (o *object) list(name string, most int) ([]json.RawMessage, bool) {
	raw, ok := o.raw(name)
	if !ok {
		return nil, false
	}
	v, e := list(o.at(name), raw, most)
	if e != nil {
		o.first.set(e)
	}
	return v, e == nil
}

// list counts before it takes memory for the elements.
func list(path string, raw []byte, most int) ([]json.RawMessage, *Error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return nil, badRequest(path, "invalid_type", "%s is %s, want a list", path, kindOf(raw))
	}
	n := 1
	outside(raw, func(_ int, c byte, depth int) {
		if c == ',' && depth == 1 {
			n++
		}
	})
	if n > most {
		return nil, badRequest(path, "too_many", "%s has %d elements, want at most %d", path, n, most)
	}
	var v []json.RawMessage
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, badRequest(path, "invalid_json", "%s: %v", path, err)
	}
	return v, nil
}

// object reads an object; its fields report to the same first error.
func (o *object) object(name string) (*object, bool) {
	raw, ok := o.raw(name)
	if !ok {
		return nil, false
	}
	return o.sub(o.at(name), raw)
}

// sub reads raw as the object at path.
func (o *object) sub(path string, raw []byte) (*object, bool) {
	s := &object{path: path, first: o.first}
	failed := o.first.err != nil
	s.parse(raw)
	return s, failed || o.first.err == nil
}

// ignore names fields that are known and change nothing here.
func (o *object) ignore(names ...string) {
	for _, n := range names {
		o.seen[n] = true
	}
}

// refuse names fields that would change the answer and are not offered. Values
// that ask for nothing pass: null, false, 0, "" and empty lists and objects.
func (o *object) refuse(why string, names ...string) {
	for _, n := range names {
		raw, ok := o.raw(n)
		if !ok {
			continue
		}
		switch strings.Join(strings.Fields(string(raw)), "") {
		case "false", "0", "0.0", `""`, "[]", "{}":
		default:
			o.first.set(badRequest(o.at(n), "unsupported_parameter", "%s is not supported: %s", o.at(n), why))
		}
	}
}

// fail records an error of one's own in a field.
func (o *object) fail(name, code, format string, args ...any) {
	o.first.set(badRequest(o.at(name), code, "%s "+format, append([]any{o.at(name)}, args...)...))
}

// rest refuses fields that nobody has asked for.
func (o *object) rest() {
	for _, k := range o.keys {
		if !o.seen[k] {
			o.first.set(badRequest(o.at(k), "unknown_parameter", "unknown field %s", quote(o.at(k))))
			return
		}
	}
}

// done is rest at the end of a request: it returns the first error.
func (o *object) done() error {
	o.rest()
	if o.first.err != nil {
		return o.first.err
	}
	return nil
}
