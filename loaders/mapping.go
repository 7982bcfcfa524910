package loaders

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// mapping is a file mapped read-only, kept open so that its size can be asked
// again under the same identity even if the path is replaced meanwhile.
type mapping struct {
	path string
	file *os.File // nil for data that was in memory already
	data []byte
	was  fileState // when it was mapped
	copy bool      // data was read into memory, the file no longer matters
}

// fileState is what of a file shows that it is still as it was mapped.
type fileState struct {
	size    int64
	written int64 // time of the last write, in nanoseconds
	named   bool  // has a name in a folder, where the system tells
}

// Opening says how the files of weights are opened.
type Opening struct {
	// Read reads the files into memory, several parts at once, instead of mapping
	// them: for disks over a network, where single pages come slowly.
	Read bool
	// Phase, if not nil, is called whenever a part of the work ends: "map",
	// "parse" or, in a folder, "detect". A phase may end several times.
	Phase func(name string)
}

func (o *Opening) mark(phase string) {
	if o.Phase != nil {
		o.Phase(phase)
	}
}

// open maps the file at path or reads it.
func (o *Opening) open(path string) (*mapping, error) {
	m, err := openMapping(path)
	if err != nil || !o.Read || len(m.data) == 0 {
		return m, err
	}
	data, err := readAll(m.file, len(m.data))
	if err != nil {
		m.close()
		return nil, err
	}
	if err := unmapFile(m.data); err != nil {
		return nil, errors.Join(err, freeMemory(data), m.file.Close())
	}
	m.data, m.copy = data, true
	return m, nil
}

// Reading in pieces of a few megabytes on a few streams keeps disks and networks
// busy.
const (
	readPiece   = 8 << 20
	readStreams = 4
)

// readAll reads the first size bytes of f into memory outside of Go's heap.
func readAll(f *os.File, size int) ([]byte, error) {
	data, err := allocMemory(size)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("no memory for its %d bytes: %w", size, err)}
	}
	var g errgroup.Group
	var next atomic.Int64
	for range readStreams {
		g.Go(func() error {
			for {
				at := next.Add(readPiece) - readPiece
				if at >= int64(size) {
					return nil
				}
				if n, err := f.ReadAt(data[at:min(at+readPiece, int64(size))], at); err != nil && (err != io.EOF || at+int64(n) < int64(size)) {
					return &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("at byte %d of %d: %w", at+int64(n), size, err)}
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		freeMemory(data)
		return nil, err
	}
	return data, nil
}

// openMapping maps the regular file at path. An empty file gives empty data.
func openMapping(path string) (*mapping, error) {
	// Ask before opening: opening a named pipe would wait for its writer.
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err = f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if st.Size() > math.MaxInt {
		f.Close()
		return nil, &fs.PathError{Op: "mmap", Path: path, Err: fmt.Errorf("%d bytes are more than this machine can address", st.Size())}
	}
	m := &mapping{path: path, file: f, was: fileState{size: st.Size(), written: st.ModTime().UnixNano()}}
	if now, err := stateOf(f); err == nil && now.size == m.was.size {
		m.was = now // what only the system's own call tells, too
	}
	if st.Size() > 0 { // mapping nothing is an error on most systems
		if m.data, err = mapFile(f, int(st.Size())); err != nil {
			f.Close()
			return nil, err
		}
	}
	return m, nil
}

// close unmaps the data. Views of it must not be used afterwards.
func (m *mapping) close() error {
	if m.file == nil {
		return nil
	}
	var unmapErr error
	switch {
	case m.copy:
		unmapErr = freeMemory(m.data)
	case m.data != nil:
		unmapErr = unmapFile(m.data)
	}
	err := errors.Join(unmapErr, m.file.Close())
	m.file, m.data = nil, nil
	return err
}

// check reports whether the file is still as it was mapped.
func (m *mapping) check() error {
	if cause := m.changed(); cause != nil {
		return &FormatError{File: m.path, Err: cause}
	}
	return nil
}

// changed says how the file has changed since it was mapped. While it has not,
// it allocates nothing on most systems.
func (m *mapping) changed() error {
	if m.file == nil || m.copy {
		return nil
	}
	now, err := stateOf(m.file)
	switch {
	case err != nil:
		return err
	case now == m.was:
		return nil
	case m.was.named && !now.named:
		return errGone
	case now.size < m.was.size:
		return fmt.Errorf("file shrank from %d to %d bytes while open", m.was.size, now.size)
	}
	return fmt.Errorf("file was written to while open, last at %s; open the model again", time.Unix(0, now.written).UTC().Format(time.RFC3339))
}

// errGone is why a file that is open and whole is not used any more: what a user
// has under its name is another one, or none.
var errGone = errors.New("file was deleted, or replaced by another of its name, while open; open the model again")

// guardFault runs fn and turns a memory fault, which is what reading a mapped
// page that the file has lost since raises, into an error: check's if it has
// one. Other panics pass.
func guardFault(fn, check func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// The runtime's faults carry the address; a nil dereference does not.
		fault, ok := r.(interface {
			error
			Addr() uintptr
		})
		if !ok {
			panic(r)
		}
		if err = check(); err == nil {
			err = &FormatError{Err: fmt.Errorf("reading the mapped file failed: %w", fault)}
		}
	}()
	return fn()
}
