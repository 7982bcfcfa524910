package loaders

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"graphrun/graph"
	"graphrun/internal/shared"
)

// safeBytes returns a safetensors file with the given header text and data.
func safeBytes(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func TestSafetensorsReads(t *testing.T) {
	data := safeBytes(`{"__metadata__":{"format":"pt"},
		"b":{"dtype":"I8","shape":[3],"data_offsets":[8,11]},
		"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},
		"none":{"dtype":"BF16","shape":[0,7],"data_offsets":[11,11]},
		"scalar":{"dtype":"U8","shape":[],"data_offsets":[11,12]}}   `, 0, 0, 128, 63, 0, 0, 0, 64, 1, 2, 3, 9)
	f, err := parseSafetensors("x", data)
	if err != nil {
		t.Fatal(err)
	}
	if f.meta["format"] != "pt" {
		t.Errorf("metadata: got %v", f.meta)
	}
	for i, want := range []Tensor{
		{Name: "a", DType: graph.F32, Shape: []int{2, 1}, Data: data[len(data)-12 : len(data)-4]},
		{Name: "b", DType: graph.I8, Shape: []int{3}, Data: []byte{1, 2, 3}},
		{Name: "none", DType: graph.BF16, Shape: []int{0, 7}, Data: []byte{}},
		{Name: "scalar", DType: graph.U8, Shape: []int{}, Data: []byte{9}},
	} {
		got := f.tensors[i]
		if got.Name != want.Name || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || string(got.Data) != string(want.Data) {
			t.Errorf("tensor %d: got %s %s%v %v, want %s %s%v %v", i, got.Name, got.DType, got.Shape, got.Data, want.Name, want.DType, want.Shape, want.Data)
		}
		if string(data[got.Offset:got.Offset+int64(len(got.Data))]) != string(got.Data) {
			t.Errorf("tensor %s: offset %d does not lead to its bytes", got.Name, got.Offset)
		}
	}
}

func TestSafetensorsRefuses(t *testing.T) {
	one := func(entry string) []byte { return safeBytes(`{"a":`+entry+`}`, make([]byte, 8)...) }
	for name, c := range map[string]struct {
		data []byte
		want string // in the error
	}{
		"empty":           {nil, "file is empty"},
		"lfs pointer":     {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), "Git LFS pointer"},
		"short":           {[]byte{1, 2, 3}, "8 bytes needed"},
		"length 2^63":     {append(binary.LittleEndian.AppendUint64(nil, 1<<63), "{}"...), "found 9223372036854775808, but only 2 bytes follow"},
		"not utf-8":       {safeBytes("{\"\xff\":1}"), "not UTF-8"},
		"array":           {safeBytes("[]"), "found [, expected {"},
		"two values":      {safeBytes("{}{}"), "more than one JSON value"},
		"cut":             {safeBytes(`{"a":{"dtype"`), "unexpected EOF"},
		"unknown dtype":   {one(`{"dtype":"F7","shape":[2],"data_offsets":[0,8]}`), "dtype F7 is not supported; supported: BF16, F16"},
		"unknown key":     {one(`{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}`), "found key x"},
		"reversed":        {one(`{"dtype":"F32","shape":[0],"data_offsets":[8,0]}`), "end before they begin"},
		"beyond":          {one(`{"dtype":"F32","shape":[3],"data_offsets":[0,12]}`), "end beyond the 8 bytes"},
		"size":            {one(`{"dtype":"F32","shape":[3],"data_offsets":[0,8]}`), "are 8 bytes, but shape [3] of F32 takes 12"},
		"one offset":      {one(`{"dtype":"F32","shape":[2],"data_offsets":[0]}`), "found 1 numbers, expected 2"},
		"negative":        {one(`{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}`), "expected integers from 0 on"},
		"fraction":        {one(`{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}`), "expected integers from 0 on"},
		"string in shape": {one(`{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}`), "expected integers from 0 on"},
		"overflow":        {one(`{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}`), "larger than any memory"},
		"many dimensions": {one(`{"dtype":"I8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}`), "more than 8 numbers"},
		"no shape":        {one(`{"dtype":"F32","data_offsets":[0,8]}`), "shape is missing"},
		"rest":            {one(`{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`), "4 bytes after the last tensor"},
		"hole":            {one(`{"dtype":"F32","shape":[1],"data_offsets":[4,8]}`), "a hole"},
		"duplicate":       {safeBytes(`{"a":{"dtype":"I8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}`), "key a appears twice"},
		"same range":      {safeBytes(`{"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 0), "overlaps tensor a"},
		"metadata number": {safeBytes(`{"__metadata__":{"a":1}}`), "expected a string"},
		"metadata deep":   {safeBytes(`{"__metadata__":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}`), "expected a string"},
	} {
		_, err := parseSafetensors("x.safetensors", c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrFormat) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want a one-line ErrFormat with %q", name, err, c.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "safetensors: x.safetensors: ") {
			t.Errorf("%s: error %q does not begin with format and file", name, err)
		}
	}
}

func TestSafetensorsBadFolders(t *testing.T) {
	dir := shared.Path(t, "golden", "bad")
	text, err := os.ReadFile(filepath.Join(dir, "safetensors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Folder, Expect string }
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		m, err := OpenSafetensors(filepath.Join(dir, "safetensors", c.Folder))
		if (err == nil) != (c.Expect == "ok") {
			t.Errorf("%s: got error %v, want %s", c.Folder, err, c.Expect)
		}
		if err == nil {
			m.Close()
		}
	}
}

func TestSafetensorsIndex(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("s1.safetensors", safeBytes(`{"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"extra":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}}`, 1, 2))
	write("s2.safetensors", safeBytes(`{"b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 3))
	write("model.safetensors.index.json", []byte(`{"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}}`))
	m, err := OpenSafetensors(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(m.Tensors) != 2 || len(m.Files) != 2 {
		t.Errorf("got %d tensors in %d files, want the 2 the index lists in 2", len(m.Tensors), len(m.Files))
	}
	if b, ok := m.Tensor("b"); !ok || b.Data[0] != 3 || filepath.Base(b.File) != "s2.safetensors" {
		t.Errorf("tensor b: got %+v", b)
	}
	for _, c := range []struct{ index, want string }{
		{`{"weight_map":{"a":"../s1.safetensors"}}`, "expected a file in the folder of the index"},
		{`{"weight_map":{"a":"s3.safetensors"}}`, "shard 1 of 1 is missing"},
		{`{"weight_map":{"z":"s2.safetensors"}}`, "tensor z: is not in the shard"},
		{`{"weight_map":{}}`, "missing or empty"},
		{`nonsense`, "is not a JSON index"},
	} {
		write("model.safetensors.index.json", []byte(c.index))
		if _, err := OpenSafetensors(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("index %s: got %v, want an error with %q", c.index, err, c.want)
		}
	}
}

func FuzzSafetensors(f *testing.F) {
	f.Add(safeBytes(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, make([]byte, 8)...))
	f.Add(safeBytes(`{"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parseSafetensors("x", data)
		if err != nil {
			return
		}
		n := 0
		for _, x := range file.tensors {
			n += len(x.Data)
		}
		if n > len(data) {
			t.Fatalf("tensors of %d bytes in a file of %d", n, len(data))
		}
	})
}

func FuzzSafeIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x","b":"/etc/x","c":"C:\\x","d":".."}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		files, shard, err := parseSafeIndex(filepath.Join("dir", "index.json"), data)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%v is not ErrFormat", err)
			}
			return
		}
		for _, file := range files {
			if filepath.Dir(file) != "dir" {
				t.Errorf("file %q is outside of the folder", file)
			}
		}
		for name, file := range shard {
			if !slices.Contains(files, file) {
				t.Errorf("tensor %q is in %q, which is not listed", name, file)
			}
		}
	})
}
