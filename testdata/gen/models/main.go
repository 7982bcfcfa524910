// Command models writes the small random models of testdata/models: one for
// each architecture and for each kind of weights that tests prove the numbers
// of. Run it from the root of the module:
//
//	go run ./testdata/gen/models
//
// It writes NAME.gguf and NAME.json, which holds the tokens to feed. The
// expected logits, NAME.logits.bin, come from ref64 and never from the engine;
// make.sh runs both. Everything is seeded by the names of models and tensors, so
// that the same files come out on every machine.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"graphrun/graph"
	"graphrun/loaders"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("models: ")
	dir := flag.String("o", filepath.Join("testdata", "models"), "folder to write to")
	flag.Parse()
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		log.Fatal(err)
	}
	for _, m := range models() {
		if err := m.write(*dir); err != nil {
			log.Fatalf("%s: %v", m.name, err)
		}
	}
}

// model is a file in the making.
type model struct {
	name, doc string
	arch      string
	tokens    int // length of the list of tokens to feed
	vocab     vocabulary
	keys      []key
	tensors   []loaders.TensorInfo
}

// key is a configuration key without the architecture's prefix.
type key struct {
	name string
	val  any // an int is written as u32, a float64 as f32, an []int as array of u32
}

func (m *model) set(name string, val any) { m.keys = append(m.keys, key{name, val}) }

// add appends a tensor. shape is row-major.
func (m *model) add(name string, dt graph.DType, shape ...int) {
	m.tensors = append(m.tensors, loaders.TensorInfo{Name: name, DType: dt, Shape: shape})
}

// block appends a tensor of layer l.
func (m *model) block(l int, name string, dt graph.DType, shape ...int) {
	m.add(fmt.Sprintf("blk.%d.%s", l, name), dt, shape...)
}

// vectors appends f32 vectors of n numbers to layer l.
func (m *model) vectors(l, n int, names ...string) {
	for _, name := range names {
		m.block(l, name, graph.F32, n)
	}
}

func (m *model) write(dir string) error {
	meta := loaders.NewMetadata()
	meta.Set("general.architecture", m.arch)
	meta.Set("general.name", m.name)
	for _, k := range m.keys {
		val := k.val
		switch v := val.(type) {
		case int:
			val = uint32(v)
		case float64:
			val = float32(v)
		case []int:
			list := make([]uint32, len(v))
			for i, n := range v {
				list[i] = uint32(n)
			}
			val = list
		}
		meta.Set(m.arch+"."+k.name, val)
	}
	m.vocab.set(meta)
	err := loaders.Create(filepath.Join(dir, m.name+".gguf"), meta, m.tensors, func(w io.Writer, i int) error {
		_, err := w.Write(m.data(m.tensors[i]))
		return err
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal(struct {
		Doc    string  `json:"doc"`
		Tokens []int32 `json:"tokens"`
	}{m.doc, m.ids()})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, m.name+".json"), append(text, '\n'), 0o644)
}

// ids are the tokens to feed: the first one of the vocabulary's texts, then
// random ones.
func (m *model) ids() []int32 {
	r := newSource(m.name + " tokens")
	ids := []int32{int32(m.vocab.first)}
	for len(ids) < m.tokens {
		ids = append(ids, int32(r.below(len(m.vocab.tokens))))
	}
	return ids
}
