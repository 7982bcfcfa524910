package loaders

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// safeHeader reads the JSON of a safetensors header token by token: keys that
// appear twice, which an ordinary decoder would merge, are errors here, and no
// depth of nesting costs more than its first level.
type safeHeader struct {
	path    string
	dec     *json.Decoder
	meta    map[string]string
	entries []safeEntry
}

// safeEntry is a tensor with the byte range it declares, counted from the end
// of the header.
type safeEntry struct {
	*Tensor
	begin, end uint64
}

// read reads the whole header.
func (h *safeHeader) read() error {
	fail := func(err error) error {
		return &FormatError{Format: safetensors, File: h.path, Field: "header", Err: err}
	}
	err := h.object(func(name string) error {
		switch name {
		case "":
			return fail(errors.New("a tensor has an empty name"))
		case "__metadata__":
			if err := h.metadata(); err != nil {
				return &FormatError{Format: safetensors, File: h.path, Field: "__metadata__", Err: err}
			}
			return nil
		}
		if err := h.tensor(name); err != nil {
			return &TensorError{Format: safetensors, File: h.path, Name: name, Err: err}
		}
		return nil
	})
	if errors.Is(err, ErrFormat) {
		return err
	}
	if err != nil {
		return fail(err)
	}
	if _, err := h.dec.Token(); err != io.EOF {
		return fail(errors.New("found more than one JSON value"))
	}
	return nil
}

// token returns the next token; the end of the header is unexpected.
func (h *safeHeader) token() (json.Token, error) {
	tok, err := h.dec.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return tok, err
}

// open reads the beginning of an object or array.
func (h *safeHeader) open(want json.Delim) error {
	tok, err := h.token()
	if err == nil && tok != want {
		err = fmt.Errorf("found %s, expected %s", tokenText(tok), want)
	}
	return err
}

// object reads an object and calls value for each key, which is there once.
func (h *safeHeader) object(value func(key string) error) error {
	if err := h.open('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for h.dec.More() {
		tok, err := h.token()
		if err != nil {
			return err
		}
		key := tok.(string) // the decoder accepts nothing else here
		if seen[key] {
			return fmt.Errorf("key %s appears twice", quoteName(key))
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	_, err := h.token()
	return err
}

// text reads a string.
func (h *safeHeader) text() (string, error) {
	tok, err := h.token()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("found %s, expected a string", tokenText(tok))
	}
	return s, nil
}

// metadata reads __metadata__: strings by name.
func (h *safeHeader) metadata() error {
	h.meta = map[string]string{}
	return h.object(func(key string) error {
		s, err := h.text()
		if err != nil {
			return fmt.Errorf("key %s: %w", quoteName(key), err)
		}
		h.meta[key] = s
		return nil
	})
}

// tensor reads the object of one tensor: dtype, shape and data_offsets.
func (h *safeHeader) tensor(name string) error {
	e := safeEntry{Tensor: &Tensor{Name: name, File: h.path}}
	var offsets []int
	err := h.object(func(key string) (err error) {
		switch key {
		case "dtype":
			var s string
			if s, err = h.text(); err != nil {
				return fmt.Errorf("dtype: %w", err)
			}
			var ok bool
			if e.DType, ok = safeTypes[s]; !ok {
				err = &UnsupportedError{What: "dtype", Name: quoteName(s), Known: safeTypeNames()}
			}
		case "shape":
			e.Shape, err = h.numbers(key, 8)
		case "data_offsets":
			offsets, err = h.numbers(key, 2)
		default:
			err = fmt.Errorf("found key %s, expected dtype, shape and data_offsets", quoteName(key))
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case e.DType == 0:
		return errors.New("dtype is missing")
	case e.Shape == nil:
		return errors.New("shape is missing")
	case offsets == nil:
		return errors.New("data_offsets are missing")
	case len(offsets) != 2:
		return fmt.Errorf("data_offsets: found %d numbers, expected 2", len(offsets))
	}
	e.begin, e.end = uint64(offsets[0]), uint64(offsets[1])
	h.entries = append(h.entries, e)
	return nil
}

// numbers reads an array of at most limit integers from 0 on.
func (h *safeHeader) numbers(what string, limit int) ([]int, error) {
	if err := h.open('['); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	list := []int{}
	for h.dec.More() {
		tok, err := h.token()
		if err != nil {
			return nil, err
		}
		n, ok := tok.(json.Number)
		i, err := strconv.ParseUint(n.String(), 10, 64)
		if !ok || err != nil || i > math.MaxInt {
			return nil, fmt.Errorf("%s: found %s, expected integers from 0 on", what, tokenText(tok))
		}
		if len(list) == limit {
			return nil, fmt.Errorf("%s: more than %d numbers", what, limit)
		}
		list = append(list, int(i))
	}
	_, err := h.token()
	return list, err
}

func tokenText(tok json.Token) string {
	switch v := tok.(type) {
	case json.Delim:
		return v.String()
	case string:
		return quoteText(v)
	case nil:
		return "null"
	}
	return fmt.Sprint(tok)
}
