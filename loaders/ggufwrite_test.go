package loaders

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
)

// TestWriteRoundTrip writes a model, opens it and writes it again: the same
// bytes, whether to a new file or over the one that is open.
func TestWriteRoundTrip(t *testing.T) {
	path, first := writeSmall(t)
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, want := smallLlama()
	sameTensors(t, m.Tensors, want)

	again := filepath.Join(t.TempDir(), "again.gguf")
	targets := []string{again, path}
	if runtime.GOOS == "windows" { // no replacing of an open file there
		targets = targets[:1]
	}
	for _, to := range targets {
		if err := WriteFile(to, m.Meta, m.Tensors); err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		if at := firstDifference(first, second); at >= 0 {
			t.Errorf("%s: first difference at byte %d of %d and %d", to, at, len(first), len(second))
		}
		wantAlone(t, to)
	}
	sameTensors(t, m.Tensors, want) // the open model still has the old file
}

// TestWriteGolden writes every golden model again. All of them come out byte
// for byte: their writer, too, lays tensors out in order and pads the last.
// Of files without tensors some end in padding and some do not; ours do not.
func TestWriteGolden(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(shared.Path(t, "golden", "models"), "*", "model.gguf"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("the folder of golden models has none: %v", err)
	}
	more, _ := filepath.Glob(filepath.Join(shared.Dir(t), "*", "*.gguf"))
	vocabs, _ := filepath.Glob(filepath.Join(shared.Dir(t), "golden", "tokenizer", "*.gguf"))
	for _, path := range append(append(paths, more...), vocabs...) {
		m, err := Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		to := filepath.Join(t.TempDir(), "m.gguf")
		if err := WriteFile(to, m.Meta, m.Tensors); err != nil {
			t.Error(err)
			continue
		}
		want, got := read(t, path), read(t, to)
		if len(m.Tensors) == 0 && len(want) == alignUp(len(got), ggufAlignment) {
			want = want[:len(got)]
		}
		if at := firstDifference(want, got); at >= 0 {
			t.Errorf("%s: first difference at byte %d", path, at)
		}
		m.Close()
		os.Remove(to)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// firstDifference returns the index of the first byte that differs, -1 if none.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

// wantAlone fails the test if anything lies beside path, or path is not there.
func wantAlone(t testing.TB, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("folder holds %v, want only %s", entries, filepath.Base(path))
	}
}

// TestCreateFails checks that a failed write leaves the old file as it was, and
// nothing else.
func TestCreateFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	infos := []TensorInfo{{"a", graph.F32, []int{2}}, {"b", graph.F32, []int{2}}}
	stop := errors.New("disk on fire")
	for name, c := range map[string]struct {
		data func(w io.Writer, i int) error
		want []string
	}{
		"callback fails": {func(w io.Writer, i int) error {
			if i == 1 {
				return stop
			}
			_, err := w.Write(make([]byte, 8))
			return err
		}, []string{"m.gguf: tensor b: disk on fire"}},
		"too short": {func(w io.Writer, i int) error { _, err := w.Write(make([]byte, 7)); return err }, []string{"tensor a: 7 bytes of data written", "takes 8"}},
		"too long":  {func(w io.Writer, i int) error { _, err := w.Write(make([]byte, 9)); return err }, []string{"tensor a: 9 bytes"}},
	} {
		err := Create(path, NewMetadata(), infos, c.data)
		wantError(t, err, c.want...)
		if string(read(t, path)) != "old" {
			t.Errorf("%s: the old file is gone", name)
		}
		wantAlone(t, path)
	}

	func() {
		defer func() {
			if recover() == nil {
				t.Error("the callback's panic is lost")
			}
		}()
		Create(path, NewMetadata(), infos, func(io.Writer, int) error { panic("x") })
	}()
	wantAlone(t, path)

	err := Create(filepath.Join(t.TempDir(), "nosuch", "m.gguf"), NewMetadata(), nil, nil)
	wantError(t, err, "nosuch")
	dir := t.TempDir()
	wantError(t, Create(dir, NewMetadata(), nil, nil), dir, "not a regular file")
	wantError(t, Create("", NewMetadata(), nil, nil), "name of the file to write is empty")
	other := filepath.Join(dir, "m.safetensors")
	wantError(t, Create(other, NewMetadata(), nil, nil), other, ".gguf")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestCreateNames checks that errors of the file system name the file that was
// asked for, not the temporary one.
func TestCreateNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	f, err := createTemp(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	_, err = namedWriter{f, path}.Write([]byte{1})
	for want, err := range map[string]error{
		"write " + path + ": ":  err,
		"create " + path + ": ": underName(os.Rename(f.Name(), filepath.Join(path, "x")), path),
		"full":                  underName(errors.New("full"), path),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), ".tmp") {
			t.Errorf("found %v, want %q", err, want)
		}
	}
}

// TestWriteRefusals checks that nothing is written that would not open.
func TestWriteRefusals(t *testing.T) {
	f32 := func(name string, shape ...int) TensorInfo { return TensorInfo{name, graph.F32, shape} }
	odd := NewMetadata()
	odd.Set(alignmentKey, uint32(7))
	for _, c := range []struct {
		meta  *Metadata
		infos []TensorInfo
		want  string
	}{
		{odd, nil, "key general.alignment: found u32 7"},
		{NewMetadata(), []TensorInfo{f32("", 2)}, "name is empty"},
		{NewMetadata(), []TensorInfo{f32("a", 2), f32("a", 2)}, "tensor a: appears twice"},
		{NewMetadata(), []TensorInfo{f32("a")}, "tensor a: 0 dimensions"},
		{NewMetadata(), []TensorInfo{f32("a", 1, 1, 1, 1, 1)}, "5 dimensions"},
		{NewMetadata(), []TensorInfo{f32("a", 2, 0)}, "dimension below 1"},
		{NewMetadata(), []TensorInfo{f32("a", 1<<30, 1<<30, 1<<30)}, "larger than any memory"},
		{NewMetadata(), []TensorInfo{{"a", graph.Q4_K, []int{2, 128}}}, "row length 128"},
		{NewMetadata(), []TensorInfo{{"a", graph.Q8K, []int{256}}}, "tensor type q8k is not supported"},
	} {
		var out bytes.Buffer
		wantError(t, Write(&out, c.meta, c.infos, nil), c.want)
		if out.Len() > 0 {
			t.Errorf("%s: %d bytes written", c.want, out.Len())
		}
	}
	err := WriteFile(filepath.Join(t.TempDir(), "x.gguf"), NewMetadata(), []*Tensor{{Name: "a", DType: graph.F32, Shape: []int{3}, Data: make([]byte, 8)}})
	wantError(t, err, "x.gguf: tensor a: 8 bytes of data", "takes 12")
}
