package loaders

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// writeShards writes the small llama in n shards into dir, the metadata in the
// first only. edit may change a shard's metadata and tensors before they are
// written.
func writeShards(t testing.TB, dir string, n int, edit func(no int, meta *Metadata, tensors []*Tensor) []*Tensor) []string {
	t.Helper()
	whole, tensors := smallLlama()
	var paths []string
	for no := range n {
		meta := NewMetadata()
		if no == 0 {
			meta = whole
		}
		meta.Set(splitNoKey, uint16(no))
		meta.Set(splitCountKey, uint16(n))
		meta.Set(splitTensorsKey, int32(len(tensors)))
		part := slices.Clone(tensors[no*len(tensors)/n : (no+1)*len(tensors)/n])
		if edit != nil {
			part = edit(no, meta, part)
		}
		path := filepath.Join(dir, fmt.Sprintf("small-%05d-of-%05d.gguf", no+1, n))
		if err := WriteFile(path, meta, part); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func TestOpenSplit(t *testing.T) {
	dir := t.TempDir()
	paths := writeShards(t, dir, 3, nil)
	if err := os.WriteFile(filepath.Join(dir, "README.md"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	wantMeta, wantTensors := smallLlama()
	for _, path := range append(paths, dir) {
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		sameTensors(t, m.Tensors, wantTensors)
		if !slices.Equal(m.Meta.Keys(), wantMeta.Keys()) {
			t.Errorf("keys %q, want %q", m.Meta.Keys(), wantMeta.Keys())
		}
		if !slices.Equal(m.Files, paths) || m.Path != path {
			t.Errorf("files %q of %q", m.Files, m.Path)
		}
		if last := m.Tensors[len(m.Tensors)-1]; last.File != paths[2] {
			t.Errorf("last tensor is in %s", last.File)
		}
		var size int64
		for _, p := range paths {
			st, err := os.Stat(p)
			if err != nil {
				t.Fatal(err)
			}
			size += st.Size()
		}
		if m.Size != size {
			t.Errorf("size %d, want %d", m.Size, size)
		}
		if err := errors.Join(m.Check(), m.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenSplitRefusals(t *testing.T) {
	type edit = func(no int, meta *Metadata, tensors []*Tensor) []*Tensor
	// on edits one shard only.
	on := func(shard int, f func(meta *Metadata)) edit {
		return func(no int, meta *Metadata, tensors []*Tensor) []*Tensor {
			if no == shard {
				f(meta)
			}
			return tensors
		}
	}
	for _, c := range []struct {
		name string
		edit edit
		want []string
	}{
		{"count", on(1, func(m *Metadata) { m.Set(splitCountKey, uint16(4)) }), []string{"small-00002-of-00003.gguf: key split.count: found 4, expected 3"}},
		{"count missing", on(1, func(m *Metadata) { m.Delete(splitCountKey) }), []string{"small-00002", "key split.count: missing"}},
		{"count a string", on(2, func(m *Metadata) { m.Set(splitCountKey, "3") }), []string{"small-00003", "key split.count", `string "3"`}},
		{"number", on(2, func(m *Metadata) { m.Set(splitNoKey, uint16(1)) }), []string{"small-00003", "key split.no: found 1, expected 2"}},
		{"number missing", on(0, func(m *Metadata) { m.Delete(splitNoKey) }), []string{"small-00001", "key split.no: missing"}},
		{"tensors of one shard", on(1, func(m *Metadata) { m.Set(splitTensorsKey, int32(99)) }), []string{"small-00002", "split.tensors.count: found 99, expected 20"}},
		{"tensors of all", func(_ int, m *Metadata, ts []*Tensor) []*Tensor { m.Set(splitTensorsKey, int32(21)); return ts },
			[]string{"small-00001", "split.tensors.count: found 21, expected 20"}},
		{"tensor lost", func(no int, _ *Metadata, ts []*Tensor) []*Tensor { return ts[:len(ts)-no/2] },
			[]string{"split.tensors.count: found 20, expected 19"}},
		{"tensor twice", func(no int, _ *Metadata, ts []*Tensor) []*Tensor {
			if no == 2 {
				ts[0] = &Tensor{Name: "token_embd.weight", DType: ts[0].DType, Shape: ts[0].Shape, Data: ts[0].Data}
			}
			return ts
		}, []string{"small-00003-of-00003.gguf: tensor token_embd.weight: is also in", "small-00001-of-00003.gguf"}},
		{"another model", on(1, func(m *Metadata) { m.Set("general.architecture", "gemma3") }), []string{"small-00002", `found string "gemma3"`, `"llama"`, "another model"}},
		{"another model's key", on(1, func(m *Metadata) { m.Set("gemma3.block_count", uint32(2)) }), []string{"small-00002", "key gemma3.block_count", "another model"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			paths := writeShards(t, t.TempDir(), 3, c.edit)
			for _, path := range paths {
				_, err := Open(path)
				wantError(t, err, c.want...)
				if !errors.Is(err, ErrFormat) {
					t.Errorf("%T is not ErrFormat", err)
				}
			}
		})
	}

	// Repeating the first shard's metadata, and leaving out the tensor count,
	// are both in order.
	paths := writeShards(t, t.TempDir(), 3, on(1, func(m *Metadata) {
		m.Set("general.architecture", "llama")
		m.Delete(splitTensorsKey)
	}))
	m, err := Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
}

func TestOpenSplitFiles(t *testing.T) {
	dir := t.TempDir()
	paths := writeShards(t, dir, 3, nil)

	// A shard alone, under a name that does not say where the others are.
	data, err := os.ReadFile(paths[1])
	if err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(alone, data, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = Open(alone)
	wantError(t, err, "model.gguf: key split.count: found 3", "NAME-00001-of-00003.gguf")
	_, err = OpenBytes("embedded", data)
	wantError(t, err, "embedded: key split.count: found 3")

	if err := os.Remove(paths[2]); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{paths[0], dir} {
		_, err = Open(path)
		wantError(t, err, "small-00003-of-00003.gguf: shard 3 of 3 is missing")
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v is not ErrNotExist", err)
		}
	}

	for _, name := range []string{"m-00000-of-00003.gguf", "m-00004-of-00003.gguf"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err = Open(path)
		wantError(t, err, name, "file name says shard")
	}

	// A file that is called a shard but has no split keys.
	path, _ := writeSmall(t)
	shard := filepath.Join(filepath.Dir(path), "m-00001-of-00002.gguf")
	if err := os.Rename(path, shard); err != nil {
		t.Fatal(err)
	}
	_, err = Open(shard)
	wantError(t, err, "m-00001-of-00002.gguf: key split.count: missing")

	// One shard of one is a whole model, with or without the keys.
	only := filepath.Join(filepath.Dir(path), "m-00001-of-00001.gguf")
	if err := os.Rename(shard, only); err != nil {
		t.Fatal(err)
	}
	m, err := Open(only)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
}

func TestOpenFolder(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir)
	wantError(t, err, "holds no .gguf file")
	writeShards(t, dir, 2, nil)
	_, data := writeSmall(t)
	if err := os.WriteFile(filepath.Join(dir, ".hidden.gguf"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if err := os.WriteFile(filepath.Join(dir, "mmproj.gguf"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir)
	wantError(t, err, "holds 2 models", "mmproj.gguf, small-00001-of-00002.gguf")

	_, err = Open(filepath.Join(dir, "nosuch.gguf"))
	wantError(t, err, "nosuch.gguf")
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrFormat) {
		t.Errorf("%v: want ErrNotExist and not ErrFormat", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d.gguf"), 0o777); err != nil {
		t.Fatal(err)
	}
	_, err = Open(filepath.Join(dir, "d.gguf"))
	wantError(t, err, "holds no .gguf file")
}
