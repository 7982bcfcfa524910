package loaders

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const hf = "hf"

// hfConfigName is the file that makes a folder a model of Hugging Face form.
const hfConfigName = "config.json"

// maxHFConfig bounds the bytes of a config.json; published ones have 10 KB.
const maxHFConfig = 4 << 20

// maxHFDepth bounds how deep objects nest in one; published ones have 4 levels.
const maxHFDepth = 16

// HFConfig is a parsed config.json. Fields are found by their path, a dot
// between names: text_config.rope_parameters.full_attention.rope_theta. A field
// that is null is absent.
type HFConfig struct {
	Path      string
	ModelType string // model_type, empty if absent

	fields map[string][]byte // JSON of everything that is no object, by path
	groups map[string]bool   // paths of objects
	text   bool              // the decoder's fields are those of text_config
}

// ReadHFConfig reads a config.json. path is the file, or the folder it is in.
func ReadHFConfig(path string) (*HFConfig, error) {
	data, path, err := readHFConfig(path, nil)
	if err != nil {
		return nil, err
	}
	return ParseHFConfig(path, data)
}

// readHFConfig reads a config.json, into buf if it fits.
func readHFConfig(path string, buf []byte) ([]byte, string, error) {
	if filepath.Ext(path) != ".json" {
		path = filepath.Join(path, hfConfigName)
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, path, fmt.Errorf("hf: %w", err)
	}
	if !st.Mode().IsRegular() || st.Size() > maxHFConfig {
		return nil, path, &FormatError{Format: hf, File: path, Err: fmt.Errorf("found %s of %d bytes, expected a file of at most %d", st.Mode().Type(), st.Size(), maxHFConfig)}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, path, fmt.Errorf("hf: %w", err)
	}
	defer f.Close()
	data := buf
	if int64(len(buf)) < st.Size() {
		data = make([]byte, st.Size())
	}
	data = data[:st.Size()]
	n, err := io.ReadFull(f, data)
	if err == io.EOF || err == io.ErrUnexpectedEOF { // shorter meanwhile, or a file of the system
		err = nil
	}
	if err != nil {
		return nil, path, fmt.Errorf("hf: %w", err)
	}
	return data[:n], path, nil
}

// ParseHFConfig parses the text of a config.json. path stands for it in errors.
// A field that appears twice is an error.
func ParseHFConfig(path string, data []byte) (*HFConfig, error) {
	c := &HFConfig{Path: path, fields: make(map[string][]byte, 64), groups: make(map[string]bool, 8)}
	fail := func(err error) (*HFConfig, error) {
		return nil, &FormatError{Format: hf, File: path, Err: err}
	}
	if err := checkForeign(data); err != nil {
		return fail(err)
	}
	s := &jsonScanner{data: bytes.TrimPrefix(data, []byte("\ufeff"))}
	if s.peek() != '{' {
		return fail(errors.New("is no JSON object"))
	}
	c.object(s, "", 1)
	if b := s.peek(); s.err == nil && b != 0 {
		s.failFound(b, "the end")
	}
	if s.err != nil {
		return fail(s.err)
	}
	if _, ok := c.fields["model_type"]; ok {
		var err error
		if c.ModelType, _, err = c.Text("/model_type"); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// object reads the fields of one object, path being its own with a dot.
func (c *HFConfig) object(s *jsonScanner, path string, depth int) {
	if depth > maxHFDepth {
		s.fail("objects nest more than %d deep", maxHFDepth)
		return
	}
	s.object(func(key string) {
		at := path + key
		if c.fields[at] != nil || c.groups[at] {
			s.fail("field %s appears twice", quoteName(at))
			return
		}
		if s.peek() == '{' {
			c.groups[at] = true
			c.object(s, at+".", depth+1)
			return
		}
		v := s.value()
		if s.err == nil && !json.Valid(v) {
			s.fail("field %s: found no JSON value", quoteName(at))
			return
		}
		c.fields[at] = v
	})
}

// where returns the path of a field as the file has it. Fields are those of the
// decoder, which lie in text_config if there is one; a slash in front means the
// outermost object.
func (c *HFConfig) where(field string) string {
	if outer, ok := strings.CutPrefix(field, "/"); ok {
		return outer
	}
	if c.text {
		return "text_config." + field
	}
	return field
}

// raw returns the JSON of a field, nil if it is absent or null.
func (c *HFConfig) raw(field string) []byte {
	v := c.fields[c.where(field)]
	if string(v) == "null" {
		return nil
	}
	return v
}

// Has reports whether a field is there and not null. An object counts.
func (c *HFConfig) Has(field string) bool {
	return c.raw(field) != nil || c.groups[c.where(field)]
}

// FieldError says that a field of a config.json has a value that does not fit.
type FieldError struct {
	File  string
	Field string // path
	Got   string // empty if absent
	Want  string
}

// Error prints file, field, what was found and what was expected.
func (e *FieldError) Error() string {
	err := fmt.Errorf("found %s, expected %s", e.Got, e.Want)
	if e.Got == "" {
		err = fmt.Errorf("missing, expected %s", e.Want)
	}
	return errorText(hf, e.File, "field "+quoteName(e.Field), err)
}

// Is reports whether target is ErrFormat.
func (e *FieldError) Is(target error) bool { return target == ErrFormat }

// fieldError describes a field that does not fit.
func (c *HFConfig) fieldError(field, want string) error {
	got := ""
	if v := c.fields[c.where(field)]; v != nil {
		if got = string(v); len(got) > maxQuoted {
			got = got[:maxQuoted] + "..."
		}
		got = strings.Join(strings.Fields(got), " ")
	} else if c.groups[c.where(field)] {
		got = "an object"
	}
	return &FieldError{File: c.Path, Field: c.where(field), Got: got, Want: want}
}

// KeyName returns the name by which a person knows a key: in a folder that of the
// field of config.json, elsewhere the key itself.
func (m *Model) KeyName(key string) string {
	if field := m.fields[key]; field != "" {
		return field
	}
	return key
}

// KeyError returns the error of a key whose value does not fit: a *KeyError, or a
// *FieldError where a field of config.json says it. got is the value, "" if
// there is none.
func (m *Model) KeyError(key, got, want string) error {
	field := m.fields[key]
	if field == "" {
		return &KeyError{File: m.Path, Key: key, Got: got, Want: want}
	}
	if v := m.config.fields[field]; v != nil && string(v) != "null" {
		return m.config.fieldError("/"+field, want)
	}
	if got != "" {
		got = "no such field, which means " + got
	}
	return &FieldError{File: m.config.Path, Field: field, Got: got, Want: want}
}

// hfGet decodes a field.
func hfGet[T any](c *HFConfig, field, want string, ok func(T) bool) (v T, given bool, err error) {
	raw := c.raw(field)
	if raw == nil {
		if c.groups[c.where(field)] {
			err = c.fieldError(field, want)
		}
		return v, false, err
	}
	if json.Unmarshal(raw, &v) != nil || ok != nil && !ok(v) {
		var zero T
		return zero, true, c.fieldError(field, want)
	}
	return v, true, nil
}

// Int returns an integer from 0 to 2³¹-1.
func (c *HFConfig) Int(field string) (v int, given bool, err error) {
	const want = "an integer from 0 to 2147483647"
	raw := c.raw(field)
	if raw == nil {
		_, _, err := hfGet[int](c, field, want, nil)
		return 0, false, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0, true, c.fieldError(field, want)
	}
	return int(n), true, nil
}

// Float returns a number.
func (c *HFConfig) Float(field string) (v float64, given bool, err error) {
	return hfGet(c, field, "a number", func(x float64) bool { return math.Abs(x) <= math.MaxFloat32 })
}

// Bool returns a bool.
func (c *HFConfig) Bool(field string) (v, given bool, err error) {
	return hfGet[bool](c, field, "true or false", nil)
}

// Text returns a string.
func (c *HFConfig) Text(field string) (v string, given bool, err error) {
	return hfGet[string](c, field, "a string", nil)
}

// Texts returns a list of strings.
func (c *HFConfig) Texts(field string) (v []string, given bool, err error) {
	return hfGet[[]string](c, field, "a list of strings", nil)
}

// Ints returns a list of integers.
func (c *HFConfig) Ints(field string) (v []int, given bool, err error) {
	return hfGet[[]int](c, field, "a list of integers", nil)
}
