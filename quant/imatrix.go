package quant

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"graphrun/graph"
	"graphrun/loaders"
)

// Imatrix is an importance matrix: for each matrix of a model, the mean of the
// squares of the activations that each of its columns was multiplied with.
type Imatrix struct {
	Path    string
	Dataset string // the text it was made from, "" if the file does not say
	Chunks  int    // windows of that text, 0 if the file does not say

	entries map[string]*Importance
}

// Importance is the entry of a matrix, or of a stack of matrices.
type Importance struct {
	// Sums has the sums of squares, matrix by matrix: K numbers each.
	Sums []float32
	// Counts has the number of activations summed, for each matrix. A matrix with
	// 0, such as an expert that was never chosen, has no importance.
	Counts []float32
}

// NewImatrix returns an empty matrix.
func NewImatrix() *Imatrix { return &Imatrix{entries: map[string]*Importance{}} }

// Set gives a tensor its entry.
func (m *Imatrix) Set(name string, e *Importance) { m.entries[name] = e }

// Names returns the names of the entries, sorted.
func (m *Imatrix) Names() []string {
	names := make([]string, 0, len(m.entries))
	for n := range m.entries {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Entry returns the entry of a tensor.
func (m *Imatrix) Entry(name string) (*Importance, bool) {
	e, ok := m.entries[name]
	return e, ok
}

// Weights returns the mean squares of the columns of a tensor with the given
// shape: a slice for each matrix of it, nil for one without importance. It
// returns nil if there is no entry. An entry of another size is an error.
func (m *Imatrix) Weights(name string, shape []int) ([][]float32, error) {
	e, ok := m.entries[name]
	if !ok {
		return nil, nil
	}
	k, matrices := shape[len(shape)-1], 1
	for _, d := range shape[:max(len(shape)-2, 0)] {
		matrices *= d
	}
	if len(e.Sums) != k*len(e.Counts) || len(e.Counts) != 1 && len(e.Counts) != matrices {
		return nil, &loaders.TensorError{Format: "imatrix", File: m.Path, Name: name,
			Err: fmt.Errorf("found %d numbers in %d parts, expected %d for each of %d matrices (shape %v); is it of another model?", len(e.Sums), len(e.Counts), k, matrices, shape)}
	}
	weights := make([][]float32, matrices)
	for i := range weights {
		j := min(i, len(e.Counts)-1)
		sums := e.Sums[j*k : (j+1)*k]
		if e.Counts[j] == 0 || slices.Max(sums) == 0 {
			continue
		}
		weights[i] = make([]float32, k)
		for c, v := range sums {
			weights[i][c] = v / e.Counts[j]
		}
	}
	return weights, nil
}

// check looks for numbers that no sum of squares has.
func (m *Imatrix) check() error {
	for _, name := range m.Names() {
		e := m.entries[name]
		for i, v := range e.Sums {
			if !(v >= 0) || v > math.MaxFloat32 {
				return &loaders.TensorError{Format: "imatrix", File: m.Path, Name: name, Err: fmt.Errorf("number %d is %v, expected a sum of squares: finite, 0 or more", i, v)}
			}
		}
		for i, v := range e.Counts {
			if !(v >= 0) || v > math.MaxFloat32 {
				return &loaders.TensorError{Format: "imatrix", File: m.Path, Name: name, Err: fmt.Errorf("count %d is %v, expected 0 or more", i, v)}
			}
		}
	}
	return nil
}

// Names of the GGUF form, as llama-imatrix writes it.
const (
	imatrixType   = "imatrix" // general.type
	imatrixSums   = ".in_sum2"
	imatrixCounts = ".counts"
	keyDatasets   = "imatrix.datasets"
	keyChunkCount = "imatrix.chunk_count"
	keyChunkSize  = "imatrix.chunk_size"
)

// OpenImatrix reads an importance matrix: a GGUF file, or the older form without
// a name of its own, usually .dat.
func OpenImatrix(path string) (*Imatrix, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("imatrix: %w", err)
	case !st.Mode().IsRegular():
		return nil, &loaders.FormatError{Format: "imatrix", File: path, Err: errors.New("is no file")}
	case st.Size() > maxImatrix:
		return nil, &loaders.FormatError{Format: "imatrix", File: path, Err: fmt.Errorf("has %d bytes; an importance matrix has %d at most", st.Size(), int64(maxImatrix))}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("imatrix: %w", err)
	}
	m := NewImatrix()
	m.Path = path
	if bytes.HasPrefix(data, []byte("GGUF")) {
		err = m.readGGUF(data)
	} else {
		err = m.readLegacy(data)
	}
	if err == nil {
		err = m.check()
	}
	if err == nil && len(m.entries) == 0 {
		err = &loaders.FormatError{Format: "imatrix", File: path, Err: errors.New("holds no entries")}
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// maxImatrix is more than the matrix of any model takes: some have many experts.
const maxImatrix = 4 << 30

func (m *Imatrix) readGGUF(data []byte) error {
	f, err := loaders.OpenBytes(m.Path, data)
	if err != nil {
		return err
	}
	defer f.Close()
	if kind, _, err := f.Meta.String("general.type"); err != nil || kind != imatrixType {
		return &loaders.FormatError{Format: "imatrix", File: m.Path, Field: "key general.type", Err: fmt.Errorf("found %q, expected %q; this may be a model", kind, imatrixType)}
	}
	sets, _, err := f.Meta.Strings(keyDatasets)
	if err != nil {
		return err
	}
	chunks, _, err := f.Meta.Int(keyChunkCount)
	if err != nil {
		return err
	}
	m.Dataset, m.Chunks = strings.Join(sets, ", "), int(chunks)
	for _, t := range f.Tensors {
		name, ok := strings.CutSuffix(t.Name, imatrixSums)
		if !ok {
			continue
		}
		counts, ok := f.Tensor(name + imatrixCounts)
		if !ok {
			return &loaders.TensorError{Format: "imatrix", File: m.Path, Name: name + imatrixCounts, Err: errors.New("is missing")}
		}
		if t.DType != graph.F32 || counts.DType != graph.F32 || t.Elems()%counts.Elems() != 0 {
			return &loaders.TensorError{Format: "imatrix", File: m.Path, Name: t.Name,
				Err: fmt.Errorf("found %s of shape %v beside counts of %s %v, expected f32 with rows for each count", t.DType, t.Shape, counts.DType, counts.Shape)}
		}
		m.entries[name] = &Importance{Sums: floats(t.Data), Counts: floats(counts.Data)}
	}
	return nil
}

func floats(raw []byte) []float32 {
	x := make([]float32, len(raw)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return x
}

// readLegacy reads the older form, all numbers little-endian:
//
//	i32 entries; for each: i32 length, name, i32 calls, i32 n, n f32 numbers: the mean squares times calls
//	i32 chunks; i32 length, name of the data set          (may be missing)
//
// It does not say how many experts there are: stacks have their numbers one
// after the other.
func (m *Imatrix) readLegacy(data []byte) error {
	r := &legacyReader{data: data}
	n := r.number("the number of entries", 1<<20)
	for i := range n {
		name := r.text(fmt.Sprintf("the name of entry %d", i))
		calls := r.number(fmt.Sprintf("the calls of %q", name), math.MaxInt32)
		size := r.number(fmt.Sprintf("the size of %q", name), len(data)/4)
		raw := r.bytes(fmt.Sprintf("the numbers of %q", name), 4*size)
		if r.err != nil {
			break
		}
		if _, ok := m.entries[name]; ok {
			r.err = fmt.Errorf("entry %q appears twice", name)
			break
		}
		e := &Importance{Sums: floats(raw), Counts: []float32{float32(calls)}}
		if calls == 0 {
			e.Counts[0] = 1
		}
		m.entries[name] = e
	}
	if r.err == nil && r.at < len(data) {
		m.Chunks = r.number("the number of chunks", math.MaxInt32)
		m.Dataset = r.text("the name of the data set")
	}
	if r.err != nil {
		return &loaders.FormatError{Format: "imatrix", File: m.Path, Err: fmt.Errorf("at byte %d: %w; neither GGUF nor the older form of importance matrices", r.at, r.err)}
	}
	return nil
}

type legacyReader struct {
	data []byte
	at   int
	err  error
}

func (r *legacyReader) bytes(what string, n int) []byte {
	if r.err == nil && n > len(r.data)-r.at {
		r.err = fmt.Errorf("%s takes %d bytes, %d are left", what, n, len(r.data)-r.at)
	}
	if r.err != nil {
		return nil
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

func (r *legacyReader) number(what string, most int) int {
	b := r.bytes(what, 4)
	if b == nil {
		return 0
	}
	n := int(int32(binary.LittleEndian.Uint32(b)))
	if n < 0 || n > most {
		r.err = fmt.Errorf("%s is %d, expected 0 to %d", what, n, most)
		return 0
	}
	return n
}

func (r *legacyReader) text(what string) string {
	return string(r.bytes(what, r.number("the length of "+what, 1<<12)))
}

// unstack gives the entries of stacks of matrices in the older form, which does
// not say how many matrices there are, a count for each.
func (m *Imatrix) unstack(name string, k int) {
	if e, ok := m.entries[name]; ok && len(e.Counts) == 1 && len(e.Sums) > k && len(e.Sums)%k == 0 {
		e.Counts = slices.Repeat(e.Counts, len(e.Sums)/k)
	}
}

// Save writes the matrix as a GGUF file in the form of llama-imatrix. size is
// the number of tokens of a window.
func (m *Imatrix) Save(path string, size int) error {
	if err := m.check(); err != nil {
		return err
	}
	meta := loaders.NewMetadata()
	meta.Set("general.type", imatrixType)
	meta.Set(keyDatasets, []string{m.Dataset})
	meta.Set(keyChunkCount, uint32(m.Chunks))
	meta.Set(keyChunkSize, uint32(size))
	var infos []loaders.TensorInfo
	var data [][]float32
	for _, name := range m.Names() {
		e := m.entries[name]
		n := len(e.Counts)
		infos = append(infos,
			loaders.TensorInfo{Name: name + imatrixSums, DType: graph.F32, Shape: []int{n, len(e.Sums) / n}},
			loaders.TensorInfo{Name: name + imatrixCounts, DType: graph.F32, Shape: []int{n, 1}})
		data = append(data, e.Sums, e.Counts)
	}
	return loaders.Create(path, meta, infos, func(w io.Writer, i int) error {
		raw := make([]byte, 4*len(data[i]))
		encodeF32(raw, data[i])
		_, err := w.Write(raw)
		return err
	})
}
