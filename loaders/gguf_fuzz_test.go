package loaders

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzGGUF opens any bytes. What is refused must be refused as a malformed
// file; what opens must hold together and survive being written and read again.
func FuzzGGUF(f *testing.F) {
	for _, c := range malformed {
		f.Add(c.b.b)
	}
	all, _, _, err := ggufHeader(allValues(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(all)
	f.Add(nestedArrays(4).b)
	f.Add(ggufHead(2, 1).kvU32(alignmentKey, 64).tensor("b", 0, 64, 3, 2).tensor("a", 8, 0, 32).data(64, 98).b)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := OpenBytes("f", data)
		if err != nil {
			wantError(t, err)
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%v is not ErrFormat", err)
			}
			return
		}
		for _, key := range m.Meta.Keys() {
			v, _ := m.Meta.Value(key)
			_ = v.String()
			m.Meta.Int(key)
			m.Meta.Floats(key)
		}
		m.CheckFinite()
		var infos []TensorInfo
		for _, x := range m.Tensors {
			if len(x.Data) != x.Size() {
				t.Fatalf("tensor %s has %d bytes, want %d", x.Name, len(x.Data), x.Size())
			}
			infos = append(infos, TensorInfo{x.Name, x.DType, x.Shape})
		}
		if alignment, _ := alignmentOf(m.Meta); alignment*len(m.Tensors) > 1<<24 {
			return // legal, but all padding
		}
		write := func(m *Model) []byte {
			var out bytes.Buffer
			if err := Write(&out, m.Meta, infos, func(w io.Writer, i int) error {
				_, err := w.Write(m.Tensors[i].Data)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return out.Bytes()
		}
		first := write(m)
		again, err := OpenBytes("f", first)
		if err != nil {
			t.Fatal(err)
		}
		sameTensors(t, again.Tensors, m.Tensors)
		if at := firstDifference(first, write(again)); at >= 0 {
			t.Errorf("written twice, first difference at byte %d", at)
		}
	})
}
