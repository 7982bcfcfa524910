package engine

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"graphrun/synth"
)

// resident returns how many bytes of data lie in pages that this process has
// mapped.
func resident(t *testing.T, data []byte) int {
	t.Helper()
	const page = 4096
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(data))) / page
	n := (len(data) + page - 1) / page
	buf := make([]byte, 8*n)
	if _, err := f.ReadAt(buf, int64(begin)*8); err != nil {
		t.Skip(err)
	}
	count := 0
	for i := range n {
		if binary.LittleEndian.Uint64(buf[8*i:])>>63 == 1 {
			count += page
		}
	}
	return count
}

// No page of a dropped part is ever mapped, apart from those that the system
// maps around its neighbours' (16 pages at a time).
func TestDropResident(t *testing.T) {
	if os.Getpagesize() != 4096 {
		t.Skip("another page size")
	}
	shape, err := synth.Lookup("tiny-llama")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(t.Context(), path, shape, synth.Options{Type: "f32"}); err != nil {
		t.Fatal(err)
	}
	const around = 64<<10 + 8192 // and the pages that its ends share
	for _, part := range append(Parts(), "") {
		var drop []string
		if part != "" {
			drop = []string{part}
		}
		m, err := Open(path, Options{Threads: 1, Drop: drop})
		if err != nil {
			t.Fatal(err)
		}
		switch part {
		case "head":
			_, err = m.Embed(t.Context(), []int32{1, 2, 3}, EmbedOptions{})
		case "embed":
			b, err2 := m.Acquire(t.Context())
			if err2 != nil {
				t.Fatal(err2)
			}
			seq := m.Cache().NewSequence()
			err = b.Step(t.Context(), []Item{{Seq: seq, Tokens: []int32{1, 2}, States: make([]float32, 2*m.Arch.D), Rows: RowsLast}})
			b.Release()
		default:
			s := m.NewSession()
			err = s.Append(t.Context(), 1, 2, 3)
		}
		if err != nil {
			t.Fatal(err)
		}
		used := map[string]bool{}
		for _, v := range m.Graph.Values {
			used[v.Name] = true
		}
		// Ranges of the file: the header was read when it was in large pages of
		// the file cache, which are mapped whole.
		inUse := [][2]int64{{0, 256 << 10}}
		read := 0
		for _, tensor := range m.File.Tensors {
			if used[tensor.Name] {
				inUse = append(inUse, [2]int64{tensor.Offset - around, tensor.Offset + int64(len(tensor.Data)) + around})
				read += resident(t, tensor.Data)
			}
		}
		dropped, there := 0, 0
		for _, tensor := range m.File.Tensors {
			if used[tensor.Name] {
				continue
			}
			for at := 0; at+4096 <= len(tensor.Data); at += 4096 {
				from := tensor.Offset + int64(at)
				if !slices.ContainsFunc(inUse, func(r [2]int64) bool { return from < r[1] && from+4096 > r[0] }) {
					dropped += 4096
					there += resident(t, tensor.Data[at:at+4096])
				}
			}
		}
		t.Logf("%q: %d bytes far from others, %d of them resident; %d of what is used", part, dropped, there, read)
		if there > 0 {
			t.Errorf("without %s: %d bytes of %d that are never read are resident", part, there, dropped)
		}
		if read == 0 || part != "" && dropped < 500_000 {
			t.Errorf("without %s: %d bytes far from others, %d of the rest resident: the test shows nothing", part, dropped, read)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
