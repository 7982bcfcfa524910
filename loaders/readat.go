package loaders

import (
	"fmt"
	"io"
)

// ReadAt implements io.ReaderAt, for programs that read each weight once. Of a
// tensor that has to be made only the range is made, which must be whole rows,
// or whole numbers if it has one dimension.
//
// Several goroutines may read at once. A file that was cut short meanwhile is an
// error; Model.Check has the details.
func (t *Tensor) ReadAt(p []byte, off int64) (int, error) {
	size := int64(t.Size())
	if off < 0 || off > size {
		return 0, &TensorError{File: t.File, Name: t.Name, Err: fmt.Errorf("read at byte %d of %d", off, size)}
	}
	want := p[:min(int64(len(p)), size-off)]
	if err := t.readRange(want, int(off)); err != nil {
		return 0, err
	}
	if len(want) < len(p) {
		return len(want), io.EOF
	}
	return len(p), nil
}

func (t *Tensor) readRange(p []byte, off int) error {
	if t.made == nil || t.Data != nil {
		if len(t.Data) < off+len(p) {
			return &TensorError{File: t.File, Name: t.Name, Err: fmt.Errorf("%d bytes are there, want %d; is the model closed?", len(t.Data), off+len(p))}
		}
		err := guardFault(func() error {
			copy(p, t.Data[off:])
			return nil
		}, func() error { return nil })
		if err != nil {
			return &TensorError{File: t.File, Name: t.Name, Err: err}
		}
		return nil
	}
	unit := t.made.rows.unit()
	if off%unit != 0 || len(p)%unit != 0 {
		return &TensorError{File: t.File, Name: t.Name, Err: fmt.Errorf("read of %d bytes at %d, want whole rows of %d bytes", len(p), off, unit)}
	}
	return guardFault(func() error { return t.makeUnits(p, off/unit, (off+len(p))/unit) }, t.made.check)
}

// DropPages tells the system that what was read of the files so far need not
// stay in the process's memory: who reads a large model once calls it now and
// then. Reading a page again is fine. It does nothing where the system has no
// such call.
func (m *Model) DropPages() {
	for _, mp := range m.mappings {
		if mp.file != nil && len(mp.data) > 0 { // other memory would lose its content
			dropPages(mp.data)
		}
	}
}
