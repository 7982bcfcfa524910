package engine

import (
	"path/filepath"
	"testing"

	"graphrun/synth"
)

// TestMapAhead: what every step reads whole is mapped before the first step, and
// tables and experts are not.
func TestMapAhead(t *testing.T) {
	old := aheadFrom
	aheadFrom = 1
	defer func() { aheadFrom = old }()
	for _, name := range []string{"tiny-llama", "tiny-gemma4-moe"} {
		shape, err := synth.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "model.gguf")
		if err := synth.Write(t.Context(), path, shape, synth.Options{Type: "f32"}); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path, Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		<-m.pager.done
		if !mapPages(m.File.Tensors[0].Data[:1]) {
			t.Skip("a kernel without MADV_POPULATE_READ")
		}
		whole := map[string]bool{}
		for _, v := range readWhole(m.Graph) {
			whole[v.Name] = true
		}
		read, left := 0, 0
		for _, x := range m.File.Tensors {
			n := resident(t, x.Data)
			switch {
			case whole[x.Name]:
				read += len(x.Data)
				if n < len(x.Data) {
					t.Errorf("%s: %d of %d bytes of %s are mapped", name, n, len(x.Data), x.Name)
				}
			case n < len(x.Data)/2: // its ends share pages with neighbours
				left += len(x.Data)
			}
		}
		if read == 0 || name == "tiny-gemma4-moe" && left == 0 {
			t.Errorf("%s: %d bytes mapped, %d left alone", name, read, left)
		}
		m.Close()
	}
}
