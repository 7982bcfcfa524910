package loaders

import (
	"bytes"
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
	return buf, nil
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
// rows at a time and not kept.
func (t *Tensor) WriteTo(w io.Writer) (n int64, err error) {
	if t.made == nil || t.Data != nil {
		check := func() error { return nil }
		if t.made != nil {
			check = t.made.check
		}
		err = guardFault(func() error {
			n, err = bytes.NewReader(t.Data).WriteTo(w)
			return err
		}, check)
		return n, err
	}
	m := t.made.rows
	size, count := m.unit(), m.count()
	step := max(1, 1<<20/max(size, 1))
	buf := make([]byte, min(step, count)*size)
	for lo := 0; lo < count; lo += step {
		hi := min(lo+step, count)
		part := buf[:(hi-lo)*size]
		if err := guardFault(func() error { return t.makeUnits(part, lo, hi) }, t.made.check); err != nil {
			return n, err
		}
		k, err := w.Write(part)
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
