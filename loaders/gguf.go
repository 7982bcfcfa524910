package loaders

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"graphrun/graph"
)

// The fixed numbers of GGUF, from the format's document in the ggml repository.
const (
	ggufMagic     = "GGUF"
	ggufVersion   = 3  // the version written; 2 is laid out the same
	ggufAlignment = 32 // of tensor data, unless general.alignment says otherwise
	ggufMaxDims   = 4

	// The fewest bytes of a metadata entry (key length, one byte of key, type,
	// one byte of value) and of a tensor record (name length, one byte of name,
	// number of dimensions, one dimension, type, offset).
	ggufMinEntry  = 8 + 1 + 4 + 1
	ggufMinTensor = 8 + 1 + 4 + 8 + 4 + 8
)

// Bounds of general.alignment. Below 8 an f64 would lie unaligned; above a
// megabyte padding is all a file would be.
const (
	minAlignment = 8
	maxAlignment = 1 << 20
)

const alignmentKey = "general.alignment"

// ggufFile is one parsed GGUF file, which may be a shard of a model.
type ggufFile struct {
	path    string
	version uint32
	meta    *Metadata
	tensors []*Tensor // in the file's order
}

// parseGGUF reads the header of a GGUF file and makes tensors that view data.
// Layout, all little-endian:
//
//	magic "GGUF", u32 version, u64 tensors, u64 entries
//	entries: string key, u32 type, value
//	tensors: string name, u32 dims, u64 dim[dims] (innermost first), u32 type, u64 offset
//	padding to the alignment, then tensor data; offsets count from here
//
// Every tensor is proved to lie inside data. Bytes between and behind tensors
// are allowed; two tensors on the same bytes are not.
func parseGGUF(path string, data []byte) (*ggufFile, error) {
	fail := func(field string, err error) (*ggufFile, error) {
		return nil, &FormatError{File: path, Field: field, Err: err}
	}
	if err := checkMagic(data); err != nil {
		return fail("", err)
	}
	r := &ggufReader{data: data, pos: len(ggufMagic)}
	version := r.u32()
	if r.err != nil {
		return fail("version", r.err)
	}
	if version != 2 && version != 3 {
		return fail("", versionError(version))
	}
	// The tensor records come later, but their number is bounded here already:
	// both kinds of records have to fit into what remains.
	nTensors := r.count("number of tensors", ggufMinTensor)
	if r.err != nil {
		return fail("header", r.err)
	}
	nEntries := r.count("number of metadata entries", ggufMinEntry)
	if r.err != nil {
		return fail("header", r.err)
	}
	f := &ggufFile{path: path, version: version}
	if err := f.readMetadata(r, nEntries); err != nil {
		return nil, err
	}
	alignment, err := alignmentOf(f.meta)
	if err != nil {
		return nil, err
	}
	offsets, err := f.readTensors(r, nTensors)
	if err != nil {
		return nil, err
	}
	if err := f.placeTensors(data, r.pos, alignment, offsets); err != nil {
		return nil, err
	}
	return f, nil
}

// checkForeign recognizes what often lies where a model file should.
func checkForeign(data []byte) error {
	has := func(prefix string) bool { return bytes.HasPrefix(data, []byte(prefix)) }
	switch {
	case len(data) == 0:
		return errors.New("file is empty")
	case has("version https://git-lfs"):
		return errors.New("this is a Git LFS pointer, not the model; fetch it with git lfs pull")
	case has("PK\x03\x04"):
		return errors.New("this is a zip archive (a PyTorch checkpoint?), not a model file of this format")
	case has("<!DOCTYPE"), has("<!doctype"), has("<html"):
		return errors.New("this is a web page, not a model file: the download gave an error page")
	}
	return nil
}

// checkMagic says what a file that is no GGUF file is, if that can be seen.
func checkMagic(data []byte) error {
	if err := checkForeign(data); err != nil {
		return err
	}
	has := func(prefix string) bool { return bytes.HasPrefix(data, []byte(prefix)) }
	switch {
	case has("FUGG"):
		return errors.New(`magic is "FUGG", expected "GGUF": the file's byte order is reversed`)
	case has("GGML"), has("lmgg"), has("fmgg"), has("tjgg"), has("algg"):
		return fmt.Errorf(`magic is %q, expected "GGUF": a format older than GGUF; convert the model again`, data[:4])
	case len(data) < len(ggufMagic):
		return fmt.Errorf(`file has %d bytes, too few for the magic "GGUF"`, len(data))
	case !has(ggufMagic):
		return fmt.Errorf(`magic is %q, expected "GGUF"`, data[:4])
	}
	return nil
}

func versionError(version uint32) error {
	if swapped := bits.ReverseBytes32(version); version > math.MaxUint16 && swapped <= math.MaxUint16 {
		return fmt.Errorf("big-endian file (version %d stored as %#08x); only little-endian files are supported", swapped, version)
	}
	return &UnsupportedError{What: "version", Name: fmt.Sprint(version), Known: []string{"2", "3"}}
}

// readMetadata reads n keys and values.
func (f *ggufFile) readMetadata(r *ggufReader, n int) error {
	f.meta = NewMetadata()
	f.meta.file = f.path
	for i := range n {
		at := r.pos
		key := r.str()
		if r.err != nil || key == "" {
			err := errors.New("key is empty")
			if r.err != nil {
				err = fmt.Errorf("key: %w", r.err)
			}
			return &FormatError{File: f.path, Field: fmt.Sprintf("metadata entry %d of %d at offset %d", i+1, n, at), Err: err}
		}
		fail := func(err error) error {
			return &FormatError{File: f.path, Field: "key " + quoteName(key), Err: err}
		}
		if _, ok := f.meta.Value(key); ok {
			return fail(fmt.Errorf("appears twice, again as entry %d of %d", i+1, n))
		}
		v := r.value(ValueType(r.u32()), 0)
		if r.err != nil {
			return fail(r.err)
		}
		f.meta.put(key, v)
	}
	return nil
}

// alignmentOf returns the alignment of tensor data that the metadata asks for.
func alignmentOf(meta *Metadata) (int, error) {
	v, ok := meta.Value(alignmentKey)
	if !ok {
		return ggufAlignment, nil
	}
	n, ok := v.v.(uint32)
	if !ok || n < minAlignment || n > maxAlignment || n&(n-1) != 0 {
		return 0, &KeyError{
			File: meta.file, Key: alignmentKey,
			Got:  fmt.Sprintf("%s %s", v.TypeName(), v),
			Want: fmt.Sprintf("a u32 that is a power of two from %d to %d", minAlignment, maxAlignment),
		}
	}
	return int(n), nil
}

// readTensors reads n tensor records and returns their offsets, which only
// placeTensors can judge.
func (f *ggufFile) readTensors(r *ggufReader, n int) (offsets []uint64, err error) {
	seen := make(map[string]bool)
	for i := range n {
		at := r.pos
		name := r.str()
		if r.err != nil || name == "" {
			err := errors.New("name is empty")
			if r.err != nil {
				err = fmt.Errorf("name: %w", r.err)
			}
			return nil, &FormatError{File: f.path, Field: fmt.Sprintf("tensor %d of %d at offset %d", i+1, n, at), Err: err}
		}
		fail := func(err error) ([]uint64, error) {
			return nil, &TensorError{File: f.path, Name: name, Err: err}
		}
		if seen[name] {
			return fail(fmt.Errorf("appears twice, again as tensor %d of %d", i+1, n))
		}
		seen[name] = true

		dims := r.u32()
		if r.err == nil && (dims < 1 || dims > ggufMaxDims) {
			return fail(fmt.Errorf("%d dimensions, expected 1 to %d", dims, ggufMaxDims))
		}
		if r.err != nil {
			return fail(r.err)
		}
		shape := make([]int, dims)
		for d := range shape {
			ne := r.u64()
			if r.err == nil && (ne < 1 || ne > math.MaxInt) {
				return fail(fmt.Errorf("dimension %d is %d, expected 1 to %d", d, ne, math.MaxInt))
			}
			shape[len(shape)-1-d] = int(ne) // the file has the innermost first
		}
		number, offset := r.u32(), r.u64()
		if r.err != nil {
			return fail(r.err)
		}
		dtype, err := ggufDType(number)
		if err != nil {
			return fail(err)
		}
		if _, err := tensorBytes(dtype, shape); err != nil {
			return fail(err)
		}
		f.tensors = append(f.tensors, &Tensor{Name: name, DType: dtype, Shape: shape, File: f.path})
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

// placeTensors gives each tensor its bytes of data. The data area begins at the
// first multiple of the alignment at or after header. A file without tensors
// may end before it.
func (f *ggufFile) placeTensors(data []byte, header, alignment int, offsets []uint64) error {
	start := alignUp(header, alignment)
	room := max(0, len(data)-start)
	for i, t := range f.tensors {
		fail := func(format string, args ...any) error {
			return &TensorError{File: f.path, Name: t.Name, Err: fmt.Errorf(format, args...)}
		}
		n, offset := t.Size(), offsets[i]
		if offset%uint64(alignment) != 0 {
			return fail("offset %d is not a multiple of the alignment %d", offset, alignment)
		}
		if offset > uint64(room) || n > room-int(offset) {
			return fail("needs %d bytes at offset %d of the tensor data, which starts at byte %d, but the file ends at byte %d (cut short?)",
				n, offset, start, len(data))
		}
		at := start + int(offset)
		t.Offset = int64(at)
		t.Data = data[at : at+n : at+n]
	}
	byOffset := slices.Clone(f.tensors)
	slices.SortStableFunc(byOffset, func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := 1; i < len(byOffset); i++ {
		a, b := byOffset[i-1], byOffset[i]
		if end := a.Offset + int64(len(a.Data)); b.Offset < end {
			return &TensorError{File: f.path, Name: b.Name, Err: fmt.Errorf("overlaps tensor %s: starts at byte %d, before the other's end at %d",
				quoteName(a.Name), b.Offset, end)}
		}
	}
	return nil
}

// tensorBytes returns the bytes of a tensor whose dimensions are all at least
// 1. The row length must be a multiple of the block, and elements and bytes
// must fit an int.
func tensorBytes(dtype graph.DType, shape []int) (int, error) {
	row, block := shape[len(shape)-1], dtype.BlockElems()
	if row%block != 0 {
		return 0, fmt.Errorf("row length %d is not a multiple of the %d elements of a %s block",
			row, block, strings.ToUpper(dtype.String()))
	}
	elems, bytes := uint64(1), uint64(dtype.BlockBytes())
	for i, d := range shape {
		blocks := d
		if i == len(shape)-1 {
			blocks /= block
		}
		over1, e := bits.Mul64(elems, uint64(d))
		over2, b := bits.Mul64(bytes, uint64(blocks))
		if over1 != 0 || over2 != 0 || e > math.MaxInt || b > math.MaxInt {
			return 0, fmt.Errorf("shape %v of %s is larger than any memory", shape, strings.ToUpper(dtype.String()))
		}
		elems, bytes = e, b
	}
	return int(bytes), nil
}

// alignUp returns the first multiple of alignment, a power of two, at or after n.
func alignUp(n, alignment int) int { return (n + alignment - 1) &^ (alignment - 1) }
