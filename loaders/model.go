package loaders

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"unsafe"

	"graphrun/graph"
)

// Model is an opened weight file, or set of split files: metadata, and tensors
// as views of the mapping.
type Model struct {
	Path    string    // path the model was opened with
	Files   []string  // the file, or the shards in order
	Format  string    // "GGUF v3"
	Size    int64     // bytes of all files
	Meta    *Metadata // of a split model: the first shard's, without split.* keys
	Tensors []*Tensor // in the files' order

	// Notes tell, a sentence each, what a person should know about the reading:
	// parts that are not used, defaults that were taken.
	Notes []string

	index    map[string]*Tensor
	mappings []*mapping
	vocab    *Vocab // of a folder; nil: from Meta
	source   func(name string) string
	config   *HFConfig         // of a folder
	fields   map[string]string // of a folder: by key, the path in config of what it says
	held     atomic.Int64      // bytes of the files that were read since pages were let go
}

// Tensor is a tensor of a model file.
type Tensor struct {
	Name  string
	DType graph.DType
	// Shape is row-major: the last dimension is contiguous in memory. A GGUF
	// file lists dimensions the other way round.
	Shape []int
	// Data are the tensor's bytes as they lie in the file, a read-only view of
	// the mapping: writing to it faults. It is nil once the model is closed, and
	// nil before Load for a tensor that has to be made.
	Data   []byte
	File   string // path of the file that holds it
	Offset int64  // of Data in File, in bytes

	made *madeTensor // nil if the bytes lie in the file
	read func(n int) // told how many bytes of the files were read; may be nil
}

// Elems returns the number of elements.
func (t *Tensor) Elems() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Size returns the bytes of the tensor, loaded or not.
func (t *Tensor) Size() int { return t.Elems() / t.DType.BlockElems() * t.DType.BlockBytes() }

// OpenBytes opens a model that is in memory already, such as one embedded in a
// program. name stands for the path in errors. Tensors are views of data, which
// must not be changed while the model is in use; data that does not begin on a
// cache line is copied first, because kernels read numbers in place.
// A shard of a split model is refused.
func OpenBytes(name string, data []byte) (*Model, error) {
	if addr := uintptr(unsafe.Pointer(unsafe.SliceData(data))); addr%64 != 0 {
		data = alignedCopy(data)
	}
	return newModel(name, func() ([]*mapping, []*ggufFile, error) {
		f, err := parseGGUF(name, data)
		if err != nil {
			return nil, nil, err
		}
		if err := refuseShard(f); err != nil {
			return nil, nil, err
		}
		return []*mapping{{path: name, data: data}}, []*ggufFile{f}, nil
	})
}

// alignedCopy returns a copy of data that begins at a multiple of 64 bytes.
func alignedCopy(data []byte) []byte {
	buf := make([]byte, len(data)+64)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) & 63
	return append(buf[skip:skip:skip+len(data)], data...)
}

// newModel joins the files that open returns, one per shard in order, to a
// model. If that fails the mappings are closed.
func newModel(path string, open func() ([]*mapping, []*ggufFile, error)) (*Model, error) {
	m := &Model{Path: path, index: make(map[string]*Tensor)}
	mappings, files, err := open()
	m.mappings = mappings
	for _, mp := range mappings {
		m.Files = append(m.Files, mp.path)
		m.Size += int64(len(mp.data))
	}
	if err == nil {
		err = m.join(files)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *Model) join(files []*ggufFile) error {
	first := files[0]
	m.Format = fmt.Sprintf("GGUF v%d", first.version)
	m.Meta = first.meta
	for _, f := range files {
		for _, t := range f.tensors {
			if other, ok := m.index[t.Name]; ok {
				return &TensorError{File: t.File, Name: t.Name, Err: fmt.Errorf("is also in %s", oneLine(other.File))}
			}
			m.index[t.Name] = t
			m.Tensors = append(m.Tensors, t)
		}
	}
	if len(files) > 1 {
		return m.joinShards(files)
	}
	return nil
}

// Tensor returns the tensor with the given name.
func (m *Model) Tensor(name string) (*Tensor, bool) {
	t, ok := m.index[name]
	return t, ok
}

// Arch returns the value of general.architecture, which every model has and a
// KeyError names if it is absent, empty or no string.
func (m *Model) Arch() (string, error) {
	const key = "general.architecture"
	arch, ok, err := m.Meta.String(key)
	if err != nil {
		return "", err
	}
	if !ok || arch == "" {
		e := &KeyError{File: m.Meta.file, Key: key, Want: "the name of an architecture"}
		if ok {
			e.Got = `string ""`
		}
		return "", e
	}
	return arch, nil
}

// Check reports whether the open files are as they were when they were mapped:
// "gguf: X: tensor T: file shrank from N to M bytes while open". Reading a
// tensor of a file that was cut faults, or finds zeros in its last page; who
// recovers from the fault (debug.SetPanicOnFault) asks Fault for the reason. A
// file that was deleted, or replaced by another of its name, is still open and
// whole, but no longer the model that its name stands for: an error too. While
// all is well Check allocates nothing on most systems.
func (m *Model) Check() error {
	for _, mp := range m.mappings {
		if cause := mp.changed(); cause != nil {
			return m.changedError(mp, cause)
		}
	}
	return nil
}

// CheckData reports whether the numbers of the open files are as they were when
// they were mapped, for who has copied them: as Check does, but a file that was
// deleted, or replaced by another of its name, is whole.
func (m *Model) CheckData() error {
	for _, mp := range m.mappings {
		cause := mp.changed()
		if cause == nil {
			continue
		}
		if now, err := stateOf(mp.file); err == nil && now.size == mp.was.size && now.written == mp.was.written {
			continue
		}
		return m.changedError(mp, cause)
	}
	return nil
}

// changedError names the first tensor that a file which has changed no longer
// holds whole, or the first of all if the file is gone.
func (m *Model) changedError(mp *mapping, cause error) error {
	now, err := stateOf(mp.file)
	gone := cause == errGone
	var first *Tensor
	for _, t := range m.Tensors {
		lost := gone || t.Offset+int64(t.Size()) > now.size
		if err == nil && t.made == nil && t.File == mp.path && lost && (first == nil || t.Offset < first.Offset) {
			first = t
		}
	}
	if first == nil {
		return mp.check()
	}
	return &TensorError{Format: m.reader(), File: mp.path, Name: m.SourceName(first.Name), Err: cause}
}

// reader returns the name of the format for errors.
func (m *Model) reader() string {
	if strings.HasPrefix(m.Format, safetensors) {
		return safetensors
	}
	return ""
}

// Fault returns the error of a memory fault at an address: it names the file
// and the tensor that lie there, and says how the file has changed. It is nil
// where no file of the model is mapped there.
func (m *Model) Fault(addr uintptr) error {
	for _, mp := range m.mappings {
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(mp.data)))
		if mp.file == nil || addr < begin || addr >= begin+uintptr(len(mp.data)) {
			continue
		}
		cause := mp.changed()
		if cause == nil {
			cause = errors.New("reading the mapped file failed: its disk or network does")
		}
		at := int64(addr - begin)
		for _, t := range m.Tensors {
			if t.made == nil && t.File == mp.path && t.Offset <= at && at < t.Offset+int64(t.Size()) {
				return &TensorError{Format: m.reader(), File: mp.path, Name: m.SourceName(t.Name), Err: cause}
			}
		}
		return &FormatError{Format: m.reader(), File: mp.path, Err: cause}
	}
	return nil
}

// Guard runs fn, which may read tensors, and turns a memory fault in this
// goroutine into Fault's error. Other panics pass.
func (m *Model) Guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// The runtime's faults carry the address; a nil dereference does not.
		fault, ok := r.(interface{ Addr() uintptr })
		if !ok {
			panic(r)
		}
		if err = m.Fault(fault.Addr()); err == nil {
			panic(r)
		}
	}()
	return fn()
}

// Close unmaps the files and sets the tensors' Data to nil. Copies of Data must
// not be used afterwards: reading them faults. Metadata stay valid. Closing
// twice is fine.
func (m *Model) Close() error {
	var errs []error
	for _, t := range m.Tensors {
		errs = append(errs, t.made.free())
		t.Data = nil
	}
	for _, mp := range m.mappings {
		errs = append(errs, mp.close())
	}
	m.mappings = nil
	return errors.Join(errs...)
}
