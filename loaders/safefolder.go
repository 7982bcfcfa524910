package loaders

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names of the weight files of a folder.
const (
	safeFileName  = "model.safetensors"
	safeIndexName = "model.safetensors.index.json"
)

// maxSafeIndex bounds the bytes of an index file.
const maxSafeIndex = 256 << 20

// OpenSafetensors opens the weights at path: a .safetensors file, an index of
// shards, or a folder that holds model.safetensors or
// model.safetensors.index.json. Files are mapped, not read. The model's
// metadata hold the header's __metadata__ strings; names and shapes are the
// file's.
//
// With an index exactly the tensors it lists are opened, each from the shard it
// names; shards must lie in the folder of the index.
func OpenSafetensors(path string) (*Model, error) { return openSafetensors(path, Opening{}) }

func openSafetensors(path string, o Opening) (*Model, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if st.IsDir() {
		index, single := filepath.Join(path, safeIndexName), filepath.Join(path, safeFileName)
		switch {
		case isFile(single):
			return openSafe(path, []string{single}, nil, o)
		case isFile(index):
			path = index
		default:
			return nil, &FormatError{Format: safetensors, File: path, Err: fmt.Errorf("folder holds neither %s nor %s", safeFileName, safeIndexName)}
		}
	}
	if strings.HasSuffix(path, ".json") {
		files, shard, err := readSafeIndex(path)
		if err != nil {
			return nil, err
		}
		return openSafe(path, files, shard, o)
	}
	return openSafe(path, []string{path}, nil, o)
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// readSafeIndex returns the shards an index names, sorted, and the shard of
// each tensor.
func readSafeIndex(path string) (files []string, shard map[string]string, err error) {
	fail := func(field string, err error) ([]string, map[string]string, error) {
		return nil, nil, &FormatError{Format: safetensors, File: path, Field: field, Err: err}
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("safetensors: %w", err)
	}
	if st.Size() > maxSafeIndex {
		return fail("", fmt.Errorf("index has %d bytes, expected at most %d", st.Size(), maxSafeIndex))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("safetensors: %w", err)
	}
	return parseSafeIndex(path, data)
}

// parseSafeIndex reads the text of an index.
func parseSafeIndex(path string, data []byte) (files []string, shard map[string]string, err error) {
	fail := func(field string, err error) ([]string, map[string]string, error) {
		return nil, nil, &FormatError{Format: safetensors, File: path, Field: field, Err: err}
	}
	if err := checkForeign(data); err != nil {
		return fail("", err)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return fail("", fmt.Errorf("is not a JSON index: %w", jsonError(err)))
	}
	if len(index.WeightMap) == 0 {
		return fail("weight_map", errors.New("missing or empty, expected a shard for each tensor"))
	}
	shard = make(map[string]string, len(index.WeightMap))
	dir := filepath.Dir(path)
	for name, file := range index.WeightMap {
		if file == "" || file == "." || file == ".." || file != filepath.Base(file) || strings.ContainsAny(file, `/\:`) {
			return fail("weight_map", fmt.Errorf("tensor %s is in %s, expected a file in the folder of the index", quoteName(name), quoteText(file)))
		}
		full := filepath.Join(dir, file)
		shard[name] = full
		if !slices.Contains(files, full) {
			files = append(files, full)
		}
	}
	slices.Sort(files)
	return files, shard, nil
}

// openSafe maps and parses files. shard, if not nil, says which tensors count
// and where each must be.
func openSafe(path string, files []string, shard map[string]string, o Opening) (_ *Model, err error) {
	m := &Model{Path: path, Format: safetensors, Files: files, Meta: NewMetadata(), index: map[string]*Tensor{}}
	m.Meta.file = path
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	for i, file := range files {
		mp, err := o.open(file)
		if errors.Is(err, fs.ErrNotExist) && shard != nil {
			return nil, &FormatError{Format: safetensors, File: file, Err: fmt.Errorf("shard %d of %d is missing: %w", i+1, len(files), fs.ErrNotExist)}
		}
		if err != nil {
			return nil, fmt.Errorf("safetensors: %w", err)
		}
		m.mappings = append(m.mappings, mp)
		m.Size += int64(len(mp.data))
		o.mark("map")
		var f *safeFile
		err = guardFault(func() (err error) {
			f, err = parseSafetensors(file, mp.data)
			return err
		}, mp.check)
		if err != nil {
			return nil, err
		}
		for _, t := range f.tensors {
			if shard != nil && shard[t.Name] != file {
				continue
			}
			if other, ok := m.index[t.Name]; ok {
				return nil, &TensorError{Format: safetensors, File: file, Name: t.Name, Err: fmt.Errorf("is also in %s", oneLine(other.File))}
			}
			m.index[t.Name] = t
			m.Tensors = append(m.Tensors, t)
		}
		for _, key := range slices.Sorted(maps.Keys(f.meta)) {
			m.Meta.Set(key, f.meta[key])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shard)) {
		if m.index[name] == nil {
			return nil, &TensorError{Format: safetensors, File: shard[name], Name: name, Err: errors.New("is not in the shard that the index names")}
		}
	}
	return m, nil
}
