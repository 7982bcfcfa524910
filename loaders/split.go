package loaders

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Keys of split models. They describe files, not the model: an opened split
// model's metadata leaves them out.
const (
	splitPrefix     = "split."
	splitNoKey      = "split.no" // counts from 0, while file names count from 1
	splitCountKey   = "split.count"
	splitTensorsKey = "split.tensors.count" // of all shards together
)

// shardName is a parsed shard name; path puts it together again.
type shardName struct {
	base      string // folder and NAME
	no, count int    // no counts from 1
}

// parseShardName reads the name of a shard: NAME-00002-of-00005.gguf.
func parseShardName(path string) (shardName, bool) {
	rest, ok := strings.CutSuffix(path, ".gguf")
	rest, count, ok1 := cutNumber(rest, "-of-")
	rest, no, ok2 := cutNumber(rest, "-")
	return shardName{rest, no, count}, ok && ok1 && ok2
}

// cutNumber cuts a separator and five digits from the end of s.
func cutNumber(s, sep string) (rest string, n int, ok bool) {
	at := len(s) - 5
	if at < 0 {
		return s, 0, false
	}
	for _, c := range []byte(s[at:]) {
		if c < '0' || c > '9' {
			return s, 0, false
		}
		n = 10*n + int(c-'0')
	}
	rest, ok = strings.CutSuffix(s[:at], sep)
	return rest, n, ok
}

func (s shardName) path(no int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", s.base, no, s.count)
}

// Open opens the GGUF model at path: a file, any shard of a split model
// (NAME-00001-of-00003.gguf; the others are found beside it), or a folder that
// holds one of either. Files are mapped, not read; Close releases them.
//
// Errors of a malformed file are a FormatError, TensorError or KeyError, of one
// this version cannot read an UnsupportedError within these, and of the file
// system an *fs.PathError.
func Open(path string) (*Model, error) { return openGGUF(path, Opening{}) }

func openGGUF(path string, o Opening) (*Model, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	file := path
	if st.IsDir() {
		if file, err = soleModel(path); err != nil {
			return nil, err
		}
	}
	paths := []string{file}
	name, isShard := parseShardName(file)
	if isShard {
		if name.no < 1 || name.no > name.count {
			return nil, &FormatError{File: file, Err: fmt.Errorf("file name says shard %d of %d", name.no, name.count)}
		}
		paths = paths[:0]
		for no := 1; no <= name.count; no++ {
			paths = append(paths, name.path(no))
		}
	}
	return newModel(path, func() ([]*mapping, []*ggufFile, error) { return openFiles(paths, o) })
}

// soleModel returns the path of the one model file in a folder, or of one shard
// of the one split model there.
func soleModel(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("gguf: %w", err)
	}
	models := make(map[string]string) // by name without shard number
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".gguf") {
			continue
		}
		key := name
		if s, ok := parseShardName(name); ok {
			key = s.path(1)
		}
		models[key] = filepath.Join(dir, name)
	}
	names := make([]string, 0, len(models))
	for name := range models {
		names = append(names, quoteName(name))
	}
	slices.Sort(names)
	const shown = 8
	switch {
	case len(models) == 0:
		if st, err := os.Stat(filepath.Join(dir, hfConfigName)); err == nil && st.Mode().IsRegular() {
			return "", &FormatError{File: dir, Err: errors.New("folder holds no .gguf file, which is wanted here; graphrun convert makes one of a Hugging Face folder")}
		}
		return "", &FormatError{File: dir, Err: errors.New("folder holds no .gguf file, and no config.json of a Hugging Face folder")}
	case len(models) > shown:
		names = append(names[:shown], "…")
		fallthrough
	case len(models) > 1:
		return "", &FormatError{File: dir, Err: fmt.Errorf("folder holds %d models, name one of them: %s", len(models), strings.Join(names, ", "))}
	}
	for _, path := range models {
		return path, nil
	}
	panic("unreachable")
}

// openFiles maps and parses the shards of a model, or its only file. The
// mappings it returns are the caller's to close even if it fails.
func openFiles(paths []string, o Opening) ([]*mapping, []*ggufFile, error) {
	var mappings []*mapping
	var files []*ggufFile
	for i, path := range paths {
		mp, err := o.open(path)
		if len(paths) > 1 && errors.Is(err, fs.ErrNotExist) {
			return mappings, nil, &FormatError{File: path, Err: fmt.Errorf("shard %d of %d is missing: %w", i+1, len(paths), fs.ErrNotExist)}
		}
		if err != nil {
			return mappings, nil, fmt.Errorf("gguf: %w", err)
		}
		mappings = append(mappings, mp)
		o.mark("map")
		err = guardFault(func() error {
			f, err := parseGGUF(path, mp.data)
			files = append(files, f)
			return err
		}, mp.check)
		if err != nil {
			return mappings, nil, err
		}
		if len(paths) == 1 {
			err = refuseShard(files[0])
		} else {
			err = checkShard(files, len(paths))
		}
		if err != nil {
			return mappings, nil, err
		}
		o.mark("parse")
	}
	return mappings, files, nil
}

// refuseShard fails if a file opened alone is a shard of several.
func refuseShard(f *ggufFile) error {
	count, _, err := f.meta.Int(splitCountKey)
	if err != nil {
		return err
	}
	if count > 1 {
		return &KeyError{File: f.path, Key: splitCountKey, Got: fmt.Sprint(count),
			Want: "1 in a file opened alone; the shards of a model are named NAME-00001-of-00003.gguf and so on"}
	}
	return nil
}

// checkShard checks the last of files, the shards read so far, against their
// number and against the first: the same model, told by what metadata it
// repeats, and the place its name claims.
func checkShard(files []*ggufFile, count int) error {
	first, f := files[0], files[len(files)-1]
	want := map[string]int64{splitCountKey: int64(count), splitNoKey: int64(len(files) - 1)}
	total, ok, err := first.meta.Int(splitTensorsKey)
	if err != nil {
		return err
	}
	if ok {
		want[splitTensorsKey] = total
	}
	for _, key := range []string{splitCountKey, splitNoKey, splitTensorsKey} {
		expected, ok := want[key]
		if !ok {
			continue
		}
		got, ok, err := f.meta.Int(key)
		switch {
		case err != nil:
			return err
		case !ok && key == splitTensorsKey: // some writers put it in the first only
		case !ok:
			return &KeyError{File: f.path, Key: key, Want: fmt.Sprintf("%d in shard %d of %d", expected, len(files), count)}
		case got != expected:
			return &KeyError{File: f.path, Key: key, Got: fmt.Sprint(got), Want: fmt.Sprintf("%d in shard %d of %d", expected, len(files), count)}
		}
	}
	if f == first {
		return nil
	}
	for _, key := range f.meta.Keys() {
		if strings.HasPrefix(key, splitPrefix) || key == alignmentKey {
			continue
		}
		v, _ := f.meta.Value(key)
		other, ok := first.meta.Value(key)
		if ok && v.TypeName() == other.TypeName() && slices.Equal(appendValue(nil, v), appendValue(nil, other)) {
			continue
		}
		return &KeyError{File: f.path, Key: key, Got: fmt.Sprintf("%s %s", v.TypeName(), v),
			Want: fmt.Sprintf("%s as in the first shard; this is a shard of another model", other)}
	}
	return nil
}

// joinShards finishes a model of several files: all tensors there, metadata of
// the whole.
func (m *Model) joinShards(files []*ggufFile) error {
	first := files[0]
	total, ok, _ := first.meta.Int(splitTensorsKey) // checkShard saw its type
	if ok && total != int64(len(m.Tensors)) {
		return &KeyError{File: first.path, Key: splitTensorsKey, Got: fmt.Sprint(total),
			Want: fmt.Sprintf("%d, the number of tensors in the %d shards", len(m.Tensors), len(files))}
	}
	m.Meta = first.meta.Clone()
	for _, key := range first.meta.Keys() {
		if strings.HasPrefix(key, splitPrefix) {
			m.Meta.Delete(key)
		}
	}
	return nil
}
