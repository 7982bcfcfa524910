package loaders

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// ErrFormat is the class of all errors that mean the file itself is wrong:
// cut, hostile, inconsistent or of another format. errors.Is finds it in
// FormatError, TensorError and KeyError.
var ErrFormat = errors.New("malformed file")

// FormatError says that a part of a file that is not a tensor is malformed.
type FormatError struct {
	Format string // reader's name, "gguf" if empty
	File   string // path as the caller gave it
	Field  string // header field or "key NAME"; empty for the file as a whole
	Err    error  // what was found and what was expected
}

func (e *FormatError) Error() string {
	return errorText(e.Format, e.File, e.Field, e.Err)
}

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// Is reports whether target is ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

// TensorError says that one tensor of a file is malformed, missing or not what
// was asked for.
type TensorError struct {
	Format string // reader's name, "gguf" if empty
	File   string // path of the file, or shard, that holds the tensor
	Name   string // tensor name
	Err    error  // what was found and what was expected
}

func (e *TensorError) Error() string {
	return errorText(e.Format, e.File, "tensor "+quoteName(e.Name), e.Err)
}

// Unwrap returns the cause.
func (e *TensorError) Unwrap() error { return e.Err }

// Is reports whether target is ErrFormat.
func (e *TensorError) Is(target error) bool { return target == ErrFormat }

// KeyError says that a metadata key is absent or has another type or value
// than the reader of the key needs.
type KeyError struct {
	File string // path of the file; empty for metadata made in memory
	Key  string
	Got  string // type and value found; empty if the key is absent
	Want string // what was expected
}

func (e *KeyError) Error() string {
	err := fmt.Errorf("found %s, expected %s", e.Got, e.Want)
	if e.Got == "" {
		err = fmt.Errorf("missing, expected %s", e.Want)
	}
	return errorText("", e.File, "key "+quoteName(e.Key), err)
}

// Is reports whether target is ErrFormat.
func (e *KeyError) Is(target error) bool { return target == ErrFormat }

// UnsupportedError says that a file is well formed but uses something that
// graphrun does not have.
type UnsupportedError struct {
	What  string   // the kind of thing: "version", "tensor type"
	Name  string   // which one
	Known []string // the supported ones
	// Closest is the one of Known that is probably meant, if any.
	Closest string
}

func (e *UnsupportedError) Error() string {
	text := fmt.Sprintf("%s %s is not supported", e.What, e.Name)
	if len(e.Known) > 0 {
		text += "; supported: " + strings.Join(e.Known, ", ")
	}
	if e.Closest != "" {
		text += "; closest: " + e.Closest
	}
	return text
}

// Is reports whether target is errors.ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// errorText joins the parts that are not empty into "format: file: field: err".
func errorText(format, file, field string, err error) string {
	if format == "" {
		format = "gguf"
		if strings.HasSuffix(file, ".safetensors") { // of a model that is read from a folder
			format = "safetensors"
		}
	}
	parts := []string{format}
	if file != "" {
		parts = append(parts, oneLine(file))
	}
	if field != "" {
		parts = append(parts, field)
	}
	return strings.Join(append(parts, err.Error()), ": ")
}

// jsonError gives an error of decoding JSON in words of the file, not of Go's
// types.
func jsonError(err error) error {
	var te *json.UnmarshalTypeError
	if !errors.As(err, &te) {
		return err
	}
	found, _, _ := strings.Cut(te.Value, " ") // "number 5000000000"
	want := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.String: "a string", reflect.Slice: "a list",
		reflect.Map: "an object", reflect.Struct: "an object", reflect.Int32: "an integer of 32 bits"}[te.Type.Kind()]
	if want == "" {
		want = "a number"
	}
	if field := strings.Trim(te.Field, "."); field != "" {
		return fmt.Errorf("field %s: found %s, expected %s", quoteName(field), found, want)
	}
	return fmt.Errorf("found %s, expected %s", found, want)
}

// maxQuoted is the most bytes of a name or string from a file that an error
// repeats. Names in real files stay below 64 bytes.
const maxQuoted = 96

// quoteName returns a name from a file in a form fit for a one-line message:
// itself if it is printable ASCII without spaces, quoted and cut otherwise.
func quoteName(s string) string {
	plain := s != "" && len(s) <= maxQuoted
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] > ' ' && s[i] < 0x7f && s[i] != '"'
	}
	if plain {
		return s
	}
	return quoteText(s)
}

// quoteText returns s quoted, cut to maxQuoted bytes.
func quoteText(s string) string {
	if len(s) <= maxQuoted {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:maxQuoted]) + fmt.Sprintf("... (%d bytes)", len(s))
}

// oneLine returns a path unchanged unless it holds characters that would break
// a message apart.
func oneLine(path string) string {
	for _, r := range path {
		if !strconv.IsPrint(r) {
			return strconv.Quote(path)
		}
	}
	return path
}
