package loaders

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"graphrun/graph"
	"graphrun/internal/blockwrite"
)

// safeNames is safeTypes the other way round.
var safeNames = func() map[graph.DType]string {
	names := make(map[graph.DType]string, len(safeTypes))
	for name, t := range safeTypes {
		names[t] = name
	}
	return names
}()

// maxShard is the most bytes of tensors in one file of a written folder. A
// larger tensor has a file of its own.
const maxShard = 5 << 30

// writeSafetensors writes tensors as one file in dir, or as several with an
// index, in the order of the sizes of their types, so that numbers lie aligned.
func writeSafetensors(dir string, tensors []*Tensor, shard int) error {
	for _, t := range tensors {
		if safeNames[t.DType] == "" {
			return &TensorError{Format: safetensors, File: dir, Name: t.Name, Err: &UnsupportedError{What: "type", Name: t.DType.String(), Known: safeTypeNames()}}
		}
	}
	var shards [][]*Tensor
	size := 0
	for _, t := range tensors {
		if len(shards) == 0 || size > 0 && size+t.Size() > shard {
			shards, size = append(shards, nil), 0
		}
		shards[len(shards)-1] = append(shards[len(shards)-1], t)
		size += t.Size()
	}
	if len(shards) == 1 {
		return writeSafeFile(filepath.Join(dir, safeFileName), shards[0])
	}
	index := struct {
		Metadata  map[string]int    `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}{map[string]int{"total_size": 0}, map[string]string{}}
	for i, s := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		if err := writeSafeFile(filepath.Join(dir, name), s); err != nil {
			return err
		}
		for _, t := range s {
			index.WeightMap[t.Name] = name
			index.Metadata["total_size"] += t.Size()
		}
	}
	return writeJSON(filepath.Join(dir, safeIndexName), index)
}

func writeSafeFile(path string, tensors []*Tensor) (err error) {
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b *Tensor) int { return b.DType.BlockBytes() - a.DType.BlockBytes() })
	var h strings.Builder
	h.WriteString(`{"__metadata__":{"format":"pt"}`)
	at := 0
	for _, t := range tensors {
		name, err := json.Marshal(t.Name)
		if err != nil {
			return err
		}
		shape := strings.ReplaceAll(fmt.Sprint(t.Shape), " ", ",")
		fmt.Fprintf(&h, `,%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, name, safeNames[t.DType], shape, at, at+t.Size())
		at += t.Size()
	}
	h.WriteString("}")
	header := h.String()
	header += strings.Repeat(" ", alignUp(len(header), 8)-len(header))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	w := blockwrite.New(f, 0)
	if err := binary.Write(w, binary.LittleEndian, uint64(len(header))); err != nil {
		return err
	}
	if _, err := io.WriteString(w, header); err != nil {
		return err
	}
	for _, t := range tensors {
		if _, err := t.WriteTo(w); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// writeJSON writes a value as indented JSON.
func writeJSON(path string, v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o666)
}
