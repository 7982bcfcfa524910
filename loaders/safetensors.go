package loaders

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"graphrun/graph"
)

const safetensors = "safetensors"

// maxSafeHeader bounds the bytes of a header: more than any published model's;
// the format's own library stops at 100 MB.
const maxSafeHeader = 256 << 20

// safeTypes maps the type names of safetensors headers to element types.
var safeTypes = map[string]graph.DType{
	"F64": graph.F64, "F32": graph.F32, "F16": graph.F16, "BF16": graph.BF16,
	"F8_E4M3": graph.F8_E4M3, "F8_E5M2": graph.F8_E5M2,
	"I64": graph.I64, "I32": graph.I32, "I16": graph.I16, "I8": graph.I8, "U8": graph.U8,
}

func safeTypeNames() []string {
	names := make([]string, 0, len(safeTypes))
	for name := range safeTypes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// safeFile is a parsed safetensors file.
type safeFile struct {
	path    string
	meta    map[string]string // __metadata__
	tensors []*Tensor         // in the order of their bytes
}

// parseSafetensors reads the header of a safetensors file and returns its
// tensors as views of data. The file is eight bytes of little-endian header
// length, the header, a JSON object, and the bytes of the tensors, which must
// fill the rest without holes or overlaps.
// Source: the format's README in github.com/huggingface/safetensors.
func parseSafetensors(path string, data []byte) (*safeFile, error) {
	fail := func(field string, format string, args ...any) error {
		return &FormatError{Format: safetensors, File: path, Field: field, Err: fmt.Errorf(format, args...)}
	}
	if err := checkForeign(data); err != nil {
		return nil, fail("", "%w", err)
	}
	if len(data) < 8 {
		return nil, fail("header length", "8 bytes needed, but the file has %d", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if n > uint64(len(data)-8) {
		return nil, fail("header length", "found %d, but only %d bytes follow (cut short, or another format?)", n, len(data)-8)
	}
	if n > maxSafeHeader {
		return nil, fail("header length", "found %d, expected at most %d", n, maxSafeHeader)
	}
	header := data[8 : 8+n]
	if !utf8.Valid(header) {
		return nil, fail("header", "is not UTF-8")
	}
	h := safeHeader{path: path, dec: json.NewDecoder(bytes.NewReader(header))}
	h.dec.UseNumber()
	if err := h.read(); err != nil {
		return nil, err
	}
	f := &safeFile{path: path, meta: h.meta}
	return f, f.place(h.entries, data[8+n:], 8+int64(n))
}

// place checks that the entries fill data one after the other and gives each
// its bytes, which lie at base in the file.
func (f *safeFile) place(entries []safeEntry, data []byte, base int64) error {
	slices.SortStableFunc(entries, func(a, b safeEntry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at, last := uint64(0), ""
	for _, e := range entries {
		size, err := tensorBytes(e.DType, append([]int{1}, e.Shape...))
		switch {
		case err != nil:
		case e.end < e.begin:
			err = fmt.Errorf("data_offsets [%d,%d] end before they begin", e.begin, e.end)
		case e.end > uint64(len(data)):
			err = fmt.Errorf("data_offsets [%d,%d] end beyond the %d bytes of data (cut short?)", e.begin, e.end, len(data))
		case e.end-e.begin != uint64(size):
			err = fmt.Errorf("data_offsets [%d,%d] are %d bytes, but shape %v of %s takes %d", e.begin, e.end, e.end-e.begin, e.Shape, strings.ToUpper(e.DType.String()), size)
		case e.begin < at:
			err = fmt.Errorf("overlaps tensor %s, which ends at byte %d, after this one's begin %d", quoteName(last), at, e.begin)
		case e.begin > at:
			err = fmt.Errorf("begins at byte %d, but the tensor before it ends at %d: a hole", e.begin, at)
		}
		if err != nil {
			return &TensorError{Format: safetensors, File: f.path, Name: e.Name, Err: err}
		}
		e.Data, e.Offset = data[e.begin:e.end:e.end], base+int64(e.begin)
		f.tensors = append(f.tensors, e.Tensor)
		at, last = e.end, e.Name
	}
	if at != uint64(len(data)) {
		return &FormatError{Format: safetensors, File: f.path, Err: fmt.Errorf("%d bytes after the last tensor belong to none", uint64(len(data))-at)}
	}
	return nil
}
