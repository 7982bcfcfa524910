package loaders

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"graphrun/graph"
)

func TestOpenBytes(t *testing.T) {
	for version := uint32(2); version <= 3; version++ {
		b := ggufHeadV(version, 2, 2).
			kvStr("general.architecture", "llama").kvU32("llama.block_count", 7).
			tensor("b", 0, 32, 3, 2).tensor("a", 8, 64, 32).
			data(32, 98).b
		m, err := OpenBytes("two.gguf", b)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("GGUF v%d", version); m.Format != want || m.Size != int64(len(b)) || m.Path != "two.gguf" {
			t.Errorf("Format %q Size %d Path %q, want %q %d two.gguf", m.Format, m.Size, m.Path, want, len(b))
		}
		if arch, err := m.Arch(); arch != "llama" || err != nil {
			t.Errorf("Arch = %q, %v", arch, err)
		}
		if len(m.Tensors) != 2 || m.Tensors[0].Name != "b" || m.Tensors[1].Name != "a" {
			t.Fatalf("tensors %v, want b and a in the file's order", m.Tensors)
		}
		// The file lists 3 columns, then 2 rows.
		x, ok := m.Tensor("b")
		if !ok || !slices.Equal(x.Shape, []int{2, 3}) || x.Elems() != 6 || x.DType != graph.F32 || x.File != "two.gguf" {
			t.Errorf("tensor b = %+v", x)
		}
		if len(x.Data) != 24 || cap(x.Data) != 24 || x.Data[0] != 32 || b[x.Offset] != 32 {
			t.Errorf("tensor b has data of %d bytes starting with %d, want 24 and 32", len(x.Data), x.Data[0])
		}
		if q, _ := m.Tensor("a"); q.DType != graph.Q8_0 || len(q.Data) != 34 || q.Data[0] != 64 {
			t.Errorf("tensor a = %+v", q)
		}
		if _, ok := m.Tensor("c"); ok {
			t.Error("tensor c found")
		}
		if err := m.Check(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := m.Close(); err != nil || x.Data != nil {
				t.Errorf("closing failed (%v) or left data", err)
			}
		}
	}
}

// TestOpenBytesUnaligned checks that data at an odd address is moved.
func TestOpenBytesUnaligned(t *testing.T) {
	b := ggufHead(1, 0).tensor("a", 0, 0, 2).data(32, 8).b
	buf := make([]byte, len(b)+64)
	for shift := range 64 {
		copy(buf[shift:], b)
		m, err := OpenBytes("x", buf[shift:shift+len(b)])
		if err != nil {
			t.Fatal(err)
		}
		if addr := fmt.Sprintf("%p", m.Tensors[0].Data); !strings.HasSuffix(addr, "0") || m.Tensors[0].Data[7] != 7 {
			t.Fatalf("shift %d: data at %s", shift, addr)
		}
	}
}

// malformed lists broken files and what the error must say.
var malformed = []struct {
	name string
	b    *ggufBuilder
	want []string
}{
	{"empty", new(ggufBuilder), []string{"file is empty"}},
	{"magic only", new(ggufBuilder).raw("GGUF"), []string{"version", "4 bytes needed at offset 4", "ends at 4"}},
	{"short", new(ggufBuilder).raw("GG"), []string{"2 bytes"}},
	{"wrong magic", new(ggufBuilder).raw("GGUG\x03\x00\x00\x00"), []string{`"GGUG"`, `"GGUF"`}},
	{"older format", new(ggufBuilder).raw("tjgg\x03\x00\x00\x00"), []string{"older"}},
	{"magic reversed", new(ggufBuilder).raw("FUGG\x03\x00\x00\x00"), []string{"reversed"}},
	{"lfs pointer", new(ggufBuilder).raw("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"), []string{"Git LFS pointer"}},
	{"zip", new(ggufBuilder).raw("PK\x03\x04aaaaaaaaaaa"), []string{"zip"}},
	{"html", new(ggufBuilder).raw("<!DOCTYPE html>"), []string{"web page"}},

	{"version 0", ggufHeadV(0, 0, 0), []string{"version 0 is not supported", "2, 3"}},
	{"version 1 with an empty string", ggufHeadV(1, 0, 1).u32(0).u32(8).u32(0), []string{"version 1 is not supported"}},
	{"version 4", ggufHeadV(4, 0, 0), []string{"version 4"}},
	{"version 99", ggufHeadV(99, 0, 0), []string{"version 99"}},
	{"big endian", ggufHeadV(0x03000000, 0, 0), []string{"big-endian file", "version 3"}},

	{"tensors 2^58", ggufHead(1<<58, 0).raw(strings.Repeat("x", 76)), []string{"number of tensors 288230376151711744"}},
	{"tensors 2^63", ggufHead(1<<63, 0).raw(strings.Repeat("x", 76)), []string{"number of tensors 9223372036854775808"}},
	{"tensors 10^9", ggufHead(1e9, 0).raw(strings.Repeat("x", 76)), []string{"number of tensors 1000000000"}},
	{"tensors one too many", ggufHead(2, 0).tensor("a", 0, 0, 2).data(32, 64), []string{"tensor 2 of 2 at offset 57: name is empty"}},
	{"entries 2^58", ggufHead(0, 1<<58).raw(strings.Repeat("x", 76)), []string{"number of metadata entries 288230376151711744"}},
	{"entries 2^63", ggufHead(0, 1<<63).raw(strings.Repeat("x", 76)), []string{"number of metadata entries"}},
	{"entries 10^9", ggufHead(0, 1e9).raw(strings.Repeat("x", 76)), []string{"number of metadata entries"}},

	{"key length max", ggufHead(0, 1).u64(math.MaxUint64).raw("aaaaaaaa"), []string{"metadata entry 1 of 1 at offset 24", "string length 18446744073709551615"}},
	{"key length 2^31", ggufHead(0, 1).u64(1 << 31).raw("aaaaaaaa"), []string{"string length 2147483648"}},
	{"key length 2^40", ggufHead(0, 1).u64(1 << 40).raw("aaaaaaaa"), []string{"string length 1099511627776"}},
	{"key empty", ggufHead(0, 1).str("").u32(4).u32(7).u32(0), []string{"metadata entry 1 of 1", "key is empty"}},
	{"key twice", ggufHead(0, 2).kvU32("a.b", 1).kvU32("a.b", 1), []string{"key a.b", "twice"}},
	{"key with a newline", ggufHead(0, 1).str("a\nb").u32(99).u32(0), []string{`key "a\nb"`, "value type 99"}},
	{"value type 13", ggufHead(0, 1).str("k").u32(13).u32(0), []string{"key k", "value type 13 is not supported", "u8, i8"}},
	{"string length", ggufHead(0, 1).str("k").u32(8).u64(math.MaxInt64).raw("abc"), []string{"key k", "9223372036854775807", "3 bytes"}},
	{"bool 2", ggufHead(0, 1).str("k").u32(7).u8(2), []string{"key k", "byte 2"}},
	{"bool array 255", ggufHead(0, 1).str("k").u32(9).u32(7).u64(3).raw("\x00\x01\xff"), []string{"key k", "bool 2", "byte 255"}},
	{"array of 2^40 strings", ggufHead(0, 1).str("k").u32(9).u32(8).u64(1 << 40).raw("abcdabcd"), []string{"key k", "array length 1099511627776"}},
	{"array of 2^61 u64", ggufHead(0, 1).str("k").u32(9).u32(10).u64(1 << 61).raw("abcdabcd"), []string{"array length 2305843009213693952"}},
	{"array of type 14", ggufHead(0, 1).str("k").u32(9).u32(14).u64(1).u32(0), []string{"array element type 14"}},
	{"array string cut", ggufHead(0, 1).str("k").u32(9).u32(8).u64(2).str("a").u64(9).raw("b"), []string{"string 1 of the array", "string length 9"}},
	{"array depth 5", nestedArrays(5), []string{"nest more than 4 deep"}},

	{"alignment i32", ggufHead(0, 1).str(alignmentKey).u32(5).u32(32), []string{alignmentKey, "found i32 32", "a u32"}},
	{"alignment string", ggufHead(0, 1).kvStr(alignmentKey, "32"), []string{alignmentKey, `found string "32"`}},
	{"alignment 0", ggufHead(0, 1).kvU32(alignmentKey, 0), []string{"found u32 0", "from 8 to 1048576"}},
	{"alignment 1", ggufHead(0, 1).kvU32(alignmentKey, 1), []string{"found u32 1"}},
	{"alignment 3", ggufHead(0, 1).kvU32(alignmentKey, 3), []string{"found u32 3"}},
	{"alignment 4", ggufHead(0, 1).kvU32(alignmentKey, 4), []string{"found u32 4"}},
	{"alignment 12", ggufHead(0, 1).kvU32(alignmentKey, 12), []string{"found u32 12"}},
	{"alignment 24", ggufHead(0, 1).kvU32(alignmentKey, 24), []string{"found u32 24"}},
	{"alignment 2^31", ggufHead(0, 1).kvU32(alignmentKey, 1<<31), []string{"found u32 2147483648"}},

	{"tensor name empty", ggufHead(1, 0).tensor("", 0, 0, 2).data(32, 8), []string{"tensor 1 of 1", "name is empty"}},
	{"tensor name too long", ggufHead(1, 0).u64(1<<50).data(32, 64), []string{"tensor 1 of 1", "name: string length"}},
	{"tensor twice", ggufHead(2, 0).tensor("a", 0, 0, 2).tensor("a", 0, 32, 2).data(32, 64), []string{"tensor a", "twice"}},
	{"no dims", ggufHead(1, 0).tensor("a", 0, 0).data(32, 8), []string{"tensor a", "0 dimensions, expected 1 to 4"}},
	{"5 dims", ggufHead(1, 0).tensor("a", 0, 0, 1, 1, 1, 1, 1).data(32, 8), []string{"5 dimensions"}},
	{"a million dims", ggufHead(1, 0).str("a").u32(1e6).data(32, 64), []string{"1000000 dimensions"}},
	{"2^32-1 dims", ggufHead(1, 0).str("a").u32(math.MaxUint32).data(32, 64), []string{"4294967295 dimensions"}},
	{"dim 0", ggufHead(1, 0).tensor("a", 0, 0, 0).data(32, 8), []string{"tensor a", "dimension 0 is 0"}},
	{"second dim 0", ggufHead(1, 0).tensor("a", 0, 0, 2, 0).data(32, 8), []string{"dimension 1 is 0"}},
	{"dim 2^63", ggufHead(1, 0).tensor("a", 0, 0, 1<<63).data(32, 8), []string{"dimension 0 is 9223372036854775808"}},
	{"dims overflow", ggufHead(1, 0).tensor("a", 0, 0, 1<<33, 1<<33).data(32, 8), []string{"larger than any memory"}},
	{"dims overflow to 0", ggufHead(1, 0).tensor("a", 0, 0, 1<<32, 1<<32).data(32, 8), []string{"larger than any memory"}},
	{"bytes overflow", ggufHead(1, 0).tensor("a", 0, 0, 1<<31, 1<<31).data(32, 8), []string{"larger than any memory"}},
	{"row of half a block", ggufHead(1, 0).tensor("a", 2, 0, 48, 2).data(32, 54), []string{"row length 48", "32 elements of a Q4_0 block"}},
	{"offset unaligned", ggufHead(1, 0).tensor("blk.0.attn_q.weight", 0, 33, 2).data(32, 64),
		[]string{"gguf: FILE: tensor blk.0.attn_q.weight: offset 33 is not a multiple of the alignment 32"}},
	{"offset unaligned to 64", ggufHead(1, 1).kvU32(alignmentKey, 64).tensor("a", 0, 32, 2).data(64, 64), []string{"offset 32", "alignment 64"}},
	{"offset beyond", ggufHead(1, 0).tensor("a", 0, 1<<40, 2).data(32, 8), []string{"tensor a", "8 bytes at offset 1099511627776", "file ends at byte 72"}},
	{"offset max", ggufHead(1, 0).tensor("a", 0, math.MaxUint64-31, 2).data(32, 8), []string{"file ends at byte 72"}},
	{"data short by one", ggufHead(1, 0).tensor("a", 0, 0, 2).data(32, 7), []string{"needs 8 bytes", "starts at byte 64", "file ends at byte 71"}},
	{"no data", ggufHead(1, 0).tensor("a", 0, 0, 2), []string{"needs 8 bytes"}},
	{"tensors overlap", ggufHead(2, 0).tensor("a", 0, 0, 9).tensor("b", 0, 32, 2).data(32, 96), []string{"tensor b", "overlaps tensor a"}},
	{"tensors on one place", ggufHead(2, 0).tensor("a", 0, 32, 2).tensor("b", 0, 32, 2).data(32, 96), []string{"tensor b", "overlaps tensor a"}},
	{"tensor inside another", ggufHead(2, 0).tensor("a", 0, 32, 2).tensor("b", 0, 0, 64).data(32, 256), []string{"tensor a", "overlaps tensor b"}},
}

// nestedArrays returns a file with one value of depth arrays, the innermost an
// empty one of u32.
func nestedArrays(depth int) *ggufBuilder {
	g := ggufHead(0, 1).str("k").u32(9)
	for range depth - 1 {
		g.u32(9).u64(1)
	}
	return g.u32(4).u64(0)
}

// TestMalformed opens every broken file, whole and cut at every length.
func TestMalformed(t *testing.T) {
	for _, c := range malformed {
		t.Run(c.name, func(t *testing.T) {
			_, err := OpenBytes("FILE", c.b.b)
			wantError(t, err, append(c.want, "gguf: FILE: ")...)
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%T is not ErrFormat", err)
			}
			for n := range c.b.b {
				if _, err := OpenBytes("FILE", c.b.b[:n]); err == nil {
					t.Errorf("the first %d bytes open", n)
				}
			}
		})
	}
	if _, err := OpenBytes("x", nestedArrays(4).b); err != nil {
		t.Errorf("4 arrays deep: %v", err)
	}
}

// TestTensorTypes checks every type number: what opens, what the refusal names.
func TestTensorTypes(t *testing.T) {
	named := map[uint32]string{4: "Q4_2, removed", 5: "Q4_3, removed", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
		36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8", 16: "IQ2_XXS", 9: "Q8_1", 15: "Q8_K", 40: "NVFP4"}
	for _, number := range append([]uint32{math.MaxUint32, 1 << 31, 255, 250}, seq(64)...) {
		dtype, ok := ggufTypes[number]
		m, err := OpenBytes("f", ggufHead(1, 0).tensor("blk.0.ffn_up.weight", number, 0, 256).data(32, 2048).b)
		if ok {
			if err != nil || m.Tensors[0].DType != dtype || len(m.Tensors[0].Data) != dtype.RowBytes(256) {
				t.Errorf("type %d (%s): %v", number, dtype, err)
			}
			continue
		}
		wantError(t, err, "tensor blk.0.ffn_up.weight", fmt.Sprintf("type %d", number), "supported: F32, F16, BF16", "Q4_K", named[number])
		var unsupported *UnsupportedError
		var tensor *TensorError
		if !errors.As(err, &unsupported) || !errors.As(err, &tensor) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("type %d: %T lacks UnsupportedError or TensorError", number, err)
		}
	}
	for _, dtype := range TensorTypes() {
		if ggufTypes[ggufTypeNumbers[dtype]] != dtype {
			t.Errorf("%s is not the type of its number", dtype)
		}
	}
	if len(TensorTypes()) != len(ggufTypes) {
		t.Errorf("%d types listed, %d numbers", len(TensorTypes()), len(ggufTypes))
	}
}

func seq(n uint32) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = uint32(i)
	}
	return s
}

// TestPrefixes cuts a whole model everywhere it matters: no part of it opens.
func TestPrefixes(t *testing.T) {
	_, data := writeSmall(t)
	for n := 0; n < len(data); n++ {
		if n > 16384 {
			n += 996
		}
		if n >= len(data) {
			break
		}
		if _, err := OpenBytes("cut", data[:n]); err == nil {
			t.Fatalf("%d of %d bytes open", n, len(data))
		} else if !errors.Is(err, ErrFormat) {
			t.Fatalf("%d bytes: %v is not ErrFormat", n, err)
		}
	}
}

// TestHostileAllocation checks that no number in a file becomes an allocation:
// refusing any of the malformed files takes less than 64 KB.
func TestHostileAllocation(t *testing.T) {
	for _, c := range malformed {
		data := alignedCopy(c.b.b)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		OpenBytes("f", data)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%s: %d bytes allocated for a file of %d", c.name, n, len(data))
		}
	}
}

// TestNestedBound checks that empty arrays inside arrays, twelve bytes each, do
// not grow into memory without bound.
func TestNestedBound(t *testing.T) {
	const n = maxNestedArrays + 1
	g := ggufHead(0, 1).str("k").u32(9).u32(9).u64(n)
	for range n {
		g.u32(0).u64(0)
	}
	_, err := OpenBytes("f", g.b)
	wantError(t, err, "key k", "arrays inside arrays")
}

// TestAlignments checks that the same model laid out by other alignments holds
// the same tensors.
func TestAlignments(t *testing.T) {
	meta, tensors := smallLlama()
	for _, alignment := range []uint32{8, 64, 4096, maxAlignment} {
		meta.Set(alignmentKey, alignment)
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := WriteFile(path, meta, tensors); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		sameTensors(t, m.Tensors, tensors)
		for _, x := range m.Tensors {
			if x.Offset%int64(alignment) != 0 {
				t.Errorf("alignment %d: %s at %d", alignment, x.Name, x.Offset)
			}
		}
		m.Close()
	}
}

// TestShapeOrder reads a matrix that is not square and finds element [r,c]
// where row-major order puts it (GG-14).
func TestShapeOrder(t *testing.T) {
	g := ggufHead(1, 0).tensor("w", 24, 0, 96, 3, 2).data(32, 96*3*2) // i8
	m, err := OpenBytes("f", g.b)
	if err != nil {
		t.Fatal(err)
	}
	w := m.Tensors[0]
	if !slices.Equal(w.Shape, []int{2, 3, 96}) || w.DType != graph.I8 {
		t.Fatalf("shape %v, want [2 3 96]", w.Shape)
	}
	if got, want := w.Data[(1*3+2)*96+5], byte((5*96+5)%256); got != want {
		t.Errorf("element [1,2,5] is %d, want %d", got, want)
	}
}

func TestArchMissing(t *testing.T) {
	for want, g := range map[string]*ggufBuilder{
		"missing":         ggufHead(0, 1).kvU32("a", 1),
		`found string ""`: ggufHead(0, 1).kvStr("general.architecture", ""),
		"found u32 7":     ggufHead(0, 1).kvU32("general.architecture", 7),
	} {
		m, err := OpenBytes("f", g.b)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Arch()
		wantError(t, err, "gguf: f: key general.architecture: "+want)
		var key *KeyError
		if !errors.As(err, &key) {
			t.Errorf("%T, want a KeyError", err)
		}
	}
}

func TestCheckFinite(t *testing.T) {
	for _, dtype := range TensorTypes() {
		if dtype == graph.I8 || dtype == graph.I16 || dtype == graph.I32 || dtype == graph.I64 {
			continue
		}
		const rows = 3
		n := dtype.RowBytes(256) * rows
		ok := []byte{0, 0} // f16 zero
		for name, scale := range map[string][]byte{
			"zero": ok, "subnormal": {1, 0}, "negative zero": {0, 0x80}, "largest": {0xff, 0x7b},
			"inf": {0, 0x7c}, "nan": {0, 0x7e}, "-inf": {0, 0xfc},
		} {
			offsets := scaleOffsets[dtype]
			if offsets == nil {
				offsets = []int{0}
			}
			for _, at := range offsets {
				data := make([]byte, n)
				block := 1
				finite := scale[1]&0x7c != 0x7c
				b := data[block*dtype.BlockBytes():]
				switch dtype {
				case graph.MXFP4:
					if b[0] = 254; !finite {
						b[0] = 255
					}
				case graph.F32, graph.BF16, graph.F64:
					top := b[:dtype.BlockBytes()]
					top[len(top)-1], top[len(top)-2] = 0x7f, 0x70 // large
					if dtype == graph.F64 {
						top[len(top)-2] = 0xef
					}
					if !finite {
						top[len(top)-1], top[len(top)-2] = scale[1]|0x7f, 0xf0
					}
				default:
					copy(b[at:], scale)
				}
				m := &Model{Tensors: []*Tensor{{Name: "w", DType: dtype, Shape: []int{rows, 256}, Data: data, File: "f"}}}
				err := m.CheckFinite()
				if finite {
					if err != nil {
						t.Errorf("%s %s: %v", dtype, name, err)
					}
					continue
				}
				wantError(t, err, "gguf: f: tensor w: ", " 1 of ", "not finite")
			}
		}
	}
}

// BenchmarkOpenVocabulary opens a model with 262144 tokens, scores and token
// types, the largest vocabulary in use.
func BenchmarkOpenVocabulary(b *testing.B) {
	path := filepath.Join(b.TempDir(), "vocab.gguf")
	writeVocabulary(b, path)
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.Size())
	b.ReportAllocs()
	for b.Loop() {
		m, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		m.Close()
	}
}

func writeVocabulary(t testing.TB, path string) {
	const n = 262144
	meta := NewMetadata()
	tokens, scores, types := make([]string, n), make([]float32, n), make([]int32, n)
	for i := range n {
		tokens[i] = fmt.Sprintf("token%d", uint32(i)*2654435761%1000003)
		scores[i] = -float32(i)
		types[i] = 1
	}
	meta.Set("tokenizer.ggml.tokens", tokens)
	meta.Set("tokenizer.ggml.scores", scores)
	meta.Set("tokenizer.ggml.token_type", types)
	meta.Set("tokenizer.ggml.merges", tokens)
	if err := WriteFile(path, meta, nil); err != nil {
		t.Fatal(err)
	}
}

// TestOpenVocabularyAllocations checks that a vocabulary is not read string by
// string.
func TestOpenVocabularyAllocations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vocab.gguf")
	writeVocabulary(t, path)
	allocs := testing.AllocsPerRun(1, func() {
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
	})
	if allocs > 200 {
		t.Errorf("%.0f allocations to open 262144 tokens", allocs)
	}
}
