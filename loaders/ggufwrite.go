package loaders

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"graphrun/graph"
	"graphrun/internal/blockwrite"
)

// TensorInfo describes a tensor to be written. Shape is row-major, as in Tensor.
type TensorInfo struct {
	Name  string
	DType graph.DType
	Shape []int
}

// Bytes returns the number of bytes the tensor's data take, or an error if a
// file cannot hold such a tensor.
func (t TensorInfo) Bytes() (int, error) {
	if _, ok := ggufTypeNumbers[t.DType]; !ok {
		return 0, &UnsupportedError{What: "tensor type", Name: t.DType.String(), Known: tensorTypeNames()}
	}
	if len(t.Shape) < 1 || len(t.Shape) > ggufMaxDims {
		return 0, fmt.Errorf("%d dimensions, expected 1 to %d", len(t.Shape), ggufMaxDims)
	}
	for _, d := range t.Shape {
		if d < 1 {
			return 0, fmt.Errorf("shape %v has a dimension below 1", t.Shape)
		}
	}
	return tensorBytes(t.DType, t.Shape)
}

// Write writes a GGUF v3 file: metadata in its order, then the tensors one after
// the other, each padded to general.alignment, 32 if that is not set. data is
// called once per tensor, in order, and writes exactly the tensor's bytes to w.
//
// The same arguments give the same bytes. What the reader would refuse is an
// error before anything is written, except for data of a wrong length.
func Write(w io.Writer, meta *Metadata, tensors []TensorInfo, data func(w io.Writer, i int) error) error {
	header, sizes, alignment, err := ggufHeader(meta, tensors)
	if err != nil {
		return err
	}
	out := &countingWriter{w: blockwrite.New(w, 0)}
	if _, err := out.Write(header); err != nil {
		return err
	}
	for i, t := range tensors {
		before := out.n
		if err := data(out, i); err != nil {
			return &TensorError{Name: t.Name, Err: err}
		}
		if n := out.n - before; n != int64(sizes[i]) {
			return &TensorError{Name: t.Name, Err: fmt.Errorf("%d bytes of data written, but %s of shape %v takes %d", n, t.DType, t.Shape, sizes[i])}
		}
		if _, err := out.Write(make([]byte, alignUp(sizes[i], alignment)-sizes[i])); err != nil {
			return err
		}
	}
	return out.w.Flush()
}

// ggufHeader returns everything before the tensor data, padding included, and
// the size of each tensor. A file without tensors ends without padding.
func ggufHeader(meta *Metadata, tensors []TensorInfo) (header []byte, sizes []int, alignment int, err error) {
	if alignment, err = alignmentOf(meta); err != nil {
		return nil, nil, 0, err
	}
	le := binary.LittleEndian
	b := append([]byte(nil), ggufMagic...)
	b = le.AppendUint32(b, ggufVersion)
	b = le.AppendUint64(b, uint64(len(tensors)))
	b = le.AppendUint64(b, uint64(meta.Len()))
	for _, key := range meta.Keys() {
		v, _ := meta.Value(key)
		b = appendString(b, key)
		b = le.AppendUint32(b, uint32(v.Type()))
		b = appendValue(b, v)
	}
	seen := make(map[string]bool, len(tensors))
	offset := uint64(0)
	for _, t := range tensors {
		n, err := t.Bytes()
		switch {
		case t.Name == "":
			err = errors.New("name is empty")
		case seen[t.Name]:
			err = errors.New("appears twice")
		}
		if err != nil {
			return nil, nil, 0, &TensorError{Name: t.Name, Err: err}
		}
		seen[t.Name] = true
		b = appendString(b, t.Name)
		b = le.AppendUint32(b, uint32(len(t.Shape)))
		for d := range t.Shape {
			b = le.AppendUint64(b, uint64(t.Shape[len(t.Shape)-1-d]))
		}
		b = le.AppendUint32(b, ggufTypeNumbers[t.DType])
		b = le.AppendUint64(b, offset)
		sizes = append(sizes, n)
		offset += uint64(alignUp(n, alignment))
	}
	if len(tensors) > 0 {
		b = append(b, make([]byte, alignUp(len(b), alignment)-len(b))...)
	}
	return b, sizes, alignment, nil
}

// countingWriter counts the bytes that pass through a buffer.
type countingWriter struct {
	w *blockwrite.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Create writes a GGUF file at path like Write does. The file appears under its
// name complete and on disk, replacing an older one, or not at all: it is
// written under a temporary name in the same folder, which is removed if
// anything fails. A model that is open keeps the file it was opened from, and its
// Check says that the name stands for another; on Windows that file cannot be
// replaced.
func Create(path string, meta *Metadata, tensors []TensorInfo, data func(w io.Writer, i int) error) error {
	p, err := writePending(path, meta, tensors, data)
	if err != nil {
		return err
	}
	return p.publish()
}

// pending is a file that is complete and on disk, but for its name.
type pending struct{ temp, path string }

// publish gives the file its name, or removes it.
func (p *pending) publish() error {
	if err := os.Rename(p.temp, p.path); err != nil {
		p.remove()
		return fmt.Errorf("gguf: %w", underName(err, p.path))
	}
	// Make the new name last as well. Not every system can sync a folder; the
	// file itself is safe by now.
	if dir, err := os.Open(filepath.Dir(p.path)); err == nil {
		dir.Sync()
		dir.Close()
	}
	return nil
}

func (p *pending) remove() { os.Remove(p.temp) }

// writePending does the work of Create but for the name.
func writePending(path string, meta *Metadata, tensors []TensorInfo, data func(w io.Writer, i int) error) (_ *pending, err error) {
	defer func() {
		var te *TensorError
		if errors.As(err, &te) && te.File == "" {
			te.File = path
		}
	}()
	if err := checkNew(path); err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f, err := createTemp(path)
	if err != nil {
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			pe.Op = "create"
		}
		return nil, fmt.Errorf("gguf: %w", underName(err, path))
	}
	done := false
	defer func() { // also on a panic in data
		if !done {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := Write(namedWriter{f, path}, meta, tensors, data); err != nil {
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) && pe == err {
			err = fmt.Errorf("gguf: %w; nothing is left behind", err)
		}
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("gguf: %w", underName(err, path))
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("gguf: %w", underName(err, path))
	}
	done = true
	return &pending{f.Name(), path}, nil
}

// checkNew refuses names that a new GGUF file cannot have: that of a folder or
// device, which is not replaced, and those that would be read as another format.
func checkNew(path string) error {
	if path == "" {
		return errors.New("the name of the file to write is empty")
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("create %s: not a regular file", path)
	}
	if strings.HasSuffix(path, ".safetensors") {
		return fmt.Errorf("create %s: the file is a GGUF file, and would be read as another format by this name; want one that ends in .gguf", path)
	}
	return nil
}

// underName gives an error of the file system the name that the file would have
// had, not that of the temporary one.
func underName(err error, path string) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return &fs.PathError{Op: pe.Op, Path: path, Err: pe.Err}
	}
	if le := (*os.LinkError)(nil); errors.As(err, &le) {
		return &fs.PathError{Op: "create", Path: path, Err: le.Err}
	}
	return err
}

// namedWriter writes to a temporary file; its errors have the name of path.
type namedWriter struct {
	f    *os.File
	path string
}

func (w namedWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if err != nil {
		err = underName(err, w.path)
	}
	return n, err
}

// createTemp creates a new file beside path, with the permissions that creating
// path itself would give.
func createTemp(path string) (*os.File, error) {
	dir, name := filepath.Split(path)
	for try := 0; ; try++ {
		temp := filepath.Join(dir, fmt.Sprintf(".%s.%08x.tmp", name, rand.Uint32()))
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, os.ErrExist) && try < 100 {
			continue
		}
		return f, err
	}
}

// WriteFile writes a GGUF file at path with the given metadata and tensors, in
// the way Create does. The tensors may be views of an open model, even of the
// file at path. To write a split model as one file pass its Meta and Tensors.
func WriteFile(path string, meta *Metadata, tensors []*Tensor) error {
	infos := make([]TensorInfo, len(tensors))
	for i, t := range tensors {
		infos[i] = TensorInfo{t.Name, t.DType, t.Shape}
		n, err := infos[i].Bytes()
		if err == nil && n != len(t.Data) {
			err = fmt.Errorf("%d bytes of data, but %s of shape %v takes %d", len(t.Data), strings.ToUpper(t.DType.String()), t.Shape, n)
		}
		if err != nil {
			return &TensorError{File: path, Name: t.Name, Err: err}
		}
	}
	return Create(path, meta, infos, func(w io.Writer, i int) error {
		// The source may be a mapped file that shrinks while it is read.
		return guardFault(func() error {
			_, err := w.Write(tensors[i].Data)
			return err
		}, func() error { return nil })
	})
}
