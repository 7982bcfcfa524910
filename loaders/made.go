package loaders

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// madeTensor makes the bytes of a tensor that does not lie in a file as it is
// used: rows in another order, packed pairs, another type.
type madeTensor struct {
	rows   *rows
	check  func() error // why reading the file faulted
	mu     sync.Mutex
	mapped []byte // memory to give back
}

// Made reports whether the tensor's bytes are made in memory when they are
// needed, rather than used where they lie in the file.
func (t *Tensor) Made() bool { return t.made != nil }

// Load returns the tensor's bytes: Data, made now if they have to be. Goroutines
// may load tensors at once.
func (t *Tensor) Load() ([]byte, error) {
	if t.made == nil {
		return t.Data, nil
	}
	t.made.mu.Lock()
	defer t.made.mu.Unlock()
	if t.Data != nil {
		return t.Data, nil
	}
	buf, err := allocMemory(t.Size())
	if err != nil {
		return nil, &TensorError{Format: hf, File: t.File, Name: t.Name, Err: fmt.Errorf("no memory for its %d bytes: %w", t.Size(), err)}
	}
	if err := t.makeAll(buf); err != nil {
		freeMemory(buf)
		return nil, err
	}
	t.Data, t.made.mapped = buf, buf
	if t.read != nil {
		t.read(len(buf))
	}
	return buf, nil
}

// Leave says that the tensor will not be read: reading its neighbours in the file
// then brings no page of it into memory, except those it shares with them.
func (t *Tensor) Leave() {
	if t.made == nil {
		smallPages(t.Data)
	}
}

// free gives back the memory of a made tensor.
func (m *madeTensor) free() error {
	if m == nil || m.mapped == nil {
		return nil
	}
	buf := m.mapped
	m.mapped = nil
	return freeMemory(buf)
}

// makeAll makes all units, several at once.
func (t *Tensor) makeAll(buf []byte) error {
	m := t.made.rows
	size, n := m.unit(), m.count()
	step := max(1, 1<<18/max(size, 1))
	var next atomic.Int64
	var g errgroup.Group
	for range min(runtime.GOMAXPROCS(0), (n+step-1)/step) {
		g.Go(func() error {
			return guardFault(func() error {
				for {
					lo := int(next.Add(int64(step))) - step
					if lo >= n {
						return nil
					}
					hi := min(lo+step, n)
					if err := t.makeUnits(buf[lo*size:hi*size], lo, hi); err != nil {
						return err
					}
				}
			}, t.made.check)
		})
	}
	return g.Wait()
}

func (t *Tensor) makeUnits(dst []byte, lo, hi int) error {
	m := t.made.rows
	size := m.unit()
	for i := lo; i < hi; i++ {
		if err := m.fill(dst[(i-lo)*size:(i-lo+1)*size], i); err != nil {
			return &TensorError{Format: hf, File: t.File, Name: t.Name, Err: err}
		}
	}
	return nil
}

// WriteTo writes the tensor's bytes. Those that have to be made are made a few
// rows at a time, by several goroutines, and not kept. Pages of the files do not
// stay in memory.
func (t *Tensor) WriteTo(w io.Writer) (n int64, err error) {
	size := t.Size()
	counted := &pageWriter{w: w, read: t.read}
	if t.made == nil || t.Data != nil {
		check := func() error { return nil }
		if t.made != nil {
			check = t.made.check
		}
		const piece = 1 << 20
		for at := 0; at < size && err == nil; at += piece {
			err = guardFault(func() error {
				_, err := counted.Write(t.Data[at:min(at+piece, size)])
				return err
			}, check)
		}
		return counted.n, err
	}
	m := t.made.rows
	unit := m.unit()
	step := max(1, 1<<20/max(unit, 1))
	err = WriteChunks(context.Background(), counted, size, step*unit, 0, func(buf []byte, chunk int) error {
		lo := chunk * step
		return guardFault(func() error { return t.makeUnits(buf, lo, lo+len(buf)/unit) }, t.made.check)
	})
	return counted.n, err
}

// pageWriter counts bytes and tells that as many were read of the files.
type pageWriter struct {
	w    io.Writer
	n    int64
	read func(n int)
}

func (p *pageWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.n += int64(n)
	if p.read != nil {
		p.read(n)
	}
	return n, err
}

// maxHeld is how many bytes of the files are read before their pages are let go.
const maxHeld = 32 << 20

// passed counts bytes of the files that were read once and are not needed again.
func (m *Model) passed(n int) {
	if m.held.Add(int64(n)) >= maxHeld {
		m.held.Store(0)
		m.DropPages()
	}
}
