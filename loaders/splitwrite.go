package loaders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// SplitLimit says how large the parts of a split model may be. One of the two is
// above 0. A part has one tensor at least.
type SplitLimit struct {
	Bytes   int // of tensor data
	Tensors int
}

// WriteSplit writes the model as parts PREFIX-00001-of-00003.gguf and so on, the
// metadata in the first, and returns their paths. Either all parts appear or
// none; a model that fits one part is an error, and so is a part that would
// replace a file of the model.
func (m *Model) WriteSplit(ctx context.Context, prefix string, limit SplitLimit) (paths []string, err error) {
	parts := m.parts(limit)
	name := shardName{base: prefix, count: len(parts)}
	switch {
	case prefix == "":
		return nil, errors.New("gguf: the prefix of the names of the parts is empty")
	case limit.Bytes <= 0 && limit.Tensors <= 0:
		return nil, errors.New("gguf: split without a limit")
	case len(parts) < 2:
		return nil, fmt.Errorf("gguf: %s: all %d tensors fit one part, so there is nothing to split", m.Path, len(m.Tensors))
	case len(parts) > maxShards:
		return nil, fmt.Errorf("gguf: %s: %d parts; names have room for %d, so give a larger limit", m.Path, len(parts), maxShards)
	}
	for i := range parts {
		if err := m.refuseOwn(name.path(i + 1)); err != nil {
			return nil, err
		}
	}
	// Names are given when all parts are there: an older split model of the same
	// name stays whole until then.
	var written []*pending
	defer func() {
		for _, p := range written {
			p.remove()
		}
	}()
	for i, tensors := range parts {
		meta := NewMetadata()
		if i == 0 {
			meta = m.Meta.Clone()
		} else if v, ok := m.Meta.Value(alignmentKey); ok {
			meta.put(alignmentKey, v)
		}
		meta.Set(splitNoKey, uint16(i))
		meta.Set(splitCountKey, uint16(len(parts)))
		meta.Set(splitTensorsKey, int32(len(m.Tensors)))
		p, err := m.write(ctx, name.path(i+1), meta, tensors)
		if err != nil {
			return nil, err
		}
		written = append(written, p)
	}
	for len(written) > 0 {
		p := written[0]
		written = written[1:]
		if err := p.publish(); err != nil {
			return nil, err
		}
		paths = append(paths, p.path)
	}
	return paths, nil
}

// maxShards is what five digits and the 16 bits of split.count can hold.
const maxShards = 1<<16 - 1

// parts cuts the list of tensors.
func (m *Model) parts(limit SplitLimit) [][]*Tensor {
	var parts [][]*Tensor
	size := 0
	for _, t := range m.Tensors {
		last := len(parts) - 1
		if last < 0 || limit.Bytes > 0 && size+t.Size() > limit.Bytes || limit.Tensors > 0 && len(parts[last]) >= limit.Tensors {
			parts = append(parts, nil)
			last++
			size = 0
		}
		parts[last] = append(parts[last], t)
		size += t.Size()
	}
	return parts
}

// WriteWhole writes the model, usually one of several parts, as one file. A file
// of the model itself is refused.
func (m *Model) WriteWhole(ctx context.Context, path string) error {
	if err := m.refuseOwn(path); err != nil {
		return err
	}
	p, err := m.write(ctx, path, m.Meta, m.Tensors)
	if err != nil {
		return err
	}
	return p.publish()
}

// refuseOwn fails if path leads to a file of the model.
func (m *Model) refuseOwn(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return nil // not there yet
	}
	for _, f := range m.Files {
		if s, err := os.Stat(f); err == nil && os.SameFile(s, st) {
			return fmt.Errorf("gguf: %s is a file of the model that is read; give another name", path)
		}
	}
	return nil
}

// write writes tensors as they are, a few rows at a time, to a file that has no
// name yet.
func (m *Model) write(ctx context.Context, path string, meta *Metadata, tensors []*Tensor) (*pending, error) {
	infos := make([]TensorInfo, len(tensors))
	for i, t := range tensors {
		infos[i] = TensorInfo{t.Name, t.DType, t.Shape}
	}
	const piece = 4 << 20
	p, err := writePending(path, meta, infos, func(w io.Writer, i int) error {
		t := tensors[i]
		row := t.DType.RowBytes(t.Shape[len(t.Shape)-1])
		size := max(1, piece/row) * row
		return WriteChunks(ctx, w, t.Size(), size, 1, func(buf []byte, c int) error {
			_, err := t.ReadAt(buf, int64(c)*int64(size))
			m.DropPages()
			return err
		})
	})
	if err != nil {
		if e := m.Check(); e != nil {
			return nil, e
		}
		return nil, err
	}
	if err := m.CheckData(); err != nil {
		p.remove()
		return nil, err
	}
	return p, nil
}
