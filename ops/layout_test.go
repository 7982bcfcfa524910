package ops_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/x448/float16"

	"graphrun/graph"
	"graphrun/ops"
	"graphrun/ops/opstest"
)

// TestCacheLayout writes one position and looks for every number where the
// description of the layout says it is, computed here by hand.
func TestCacheLayout(t *testing.T) {
	const g, k, pos = 2, 64, 64*5 + 37 // slot 37: block 2, lane 5
	pages := []int32{9, 4, 7}          // page 5 of a ring of 3 is entry 2
	for _, dt := range []graph.DType{graph.F32, graph.F16, graph.Q8_0} {
		t.Run(dt.String(), func(t *testing.T) {
			b := graph.NewBuilder("layout")
			typ := graph.Type{DType: dt, Shape: graph.ShapeOf(10*ops.PageSize, 2, g, k)}
			in := func(name string) *graph.Value { return b.Input(name, graph.F32, graph.Rows("T", g, k)) }
			kv := ops.KVWrite(b, b.Cache("kv", typ, 0), in("k"), in("v"), b.Input("pos", graph.I32, graph.Rows("T")),
				b.Input("seq", graph.I32, graph.Rows("T")), b.Input("pages", graph.I32, graph.Shape{graph.Named("N"), graph.Named("C")}))
			b.Output("kv", kv)
			gr, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			tensor := func(f func(i int) float32) *graph.Tensor {
				x := graph.NewTensor(graph.Type{DType: graph.F32, Shape: graph.ShapeOf(1, g, k)}, nil)
				for i := range x.F32 {
					x.F32[i] = f(i)
				}
				return x
			}
			// Multiples of 1/16 up to 127/16: exact in f16 and q8_0.
			ks := tensor(func(i int) float32 { return float32(i*5%255-127) / 16 })
			vs := tensor(func(i int) float32 { return float32(i*7%255-127) / 16 })
			for h := 0; h < g*k; h += 32 { // a largest number in each block
				ks.F32[h+3], vs.F32[h+4] = 127.0/16, -127.0/16
			}
			ints := func(dims []int, x ...int32) *graph.Tensor {
				return &graph.Tensor{DType: graph.I32, Dims: dims, Stride: dims[len(dims)-1], I32: x}
			}
			ps := ints([]int{1}, pos)
			sq := ints([]int{1}, 0)
			out := opstest.Plain(t, gr, nil, map[string]*graph.Tensor{"k": ks, "v": vs, "pos": ps, "seq": sq, "pages": ints([]int{1, 3}, pages...)})
			raw := out["kv"].Raw

			row := dt.RowBytes(k)
			used := 0
			for h := range g {
				area := 7*(g*2*64*row) + h*2*64*row
				for d := range k {
					var gotK, gotV float32
					kb, vb := raw[area+2*16*row:], raw[area+64*row+37*row:]
					switch dt {
					case graph.F32:
						gotK = math.Float32frombits(binary.LittleEndian.Uint32(kb[4*(d*16+5):]))
						gotV = math.Float32frombits(binary.LittleEndian.Uint32(vb[4*d:]))
					case graph.F16:
						gotK = float16.Frombits(binary.LittleEndian.Uint16(kb[2*(d*16+5):])).Float32()
						gotV = float16.Frombits(binary.LittleEndian.Uint16(vb[2*d:])).Float32()
					case graph.Q8_0:
						group := kb[d/32*544:]
						gotK = float16.Frombits(binary.LittleEndian.Uint16(group[2*5:])).Float32() * float32(int8(group[32+d%32*16+5]))
						block := vb[d/32*34:]
						gotV = float16.Frombits(binary.LittleEndian.Uint16(block)).Float32() * float32(int8(block[2+d%32]))
					}
					if wantK, wantV := ks.F32[h*k+d], vs.F32[h*k+d]; gotK != wantK || gotV != wantV {
						t.Fatalf("head %d element %d: got %v and %v, want %v and %v", h, d, gotK, gotV, wantK, wantV)
					}
				}
			}
			for _, b := range raw {
				if b != 0 {
					used++
				}
			}
			if limit := 2 * g * row; used > limit {
				t.Errorf("%d bytes are not 0, one position has %d", used, limit)
			}
			l := ops.LayoutOf(typ)
			if got, want := len(raw), 10*l.PageBytes(); got != want {
				t.Errorf("a pool of 10 pages has %d bytes, want %d", got, want)
			}
		})
	}
}

// TestQuantizeLayout checks the three parts of a quantized row.
func TestQuantizeLayout(t *testing.T) {
	for _, to := range []graph.DType{graph.Q8, graph.Q8K} {
		const k = 512
		b := graph.NewBuilder("quantize")
		b.Output("q", ops.Quantize(b, b.Input("x", graph.F32, graph.Rows("T", 2, k)), to))
		g, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		x := graph.NewTensor(graph.Type{DType: graph.F32, Shape: graph.ShapeOf(3, 2, k)}, nil)
		for i := range x.F32 {
			x.F32[i] = float32(math.Sin(float64(i*i))) * float32(i%700)
		}
		inf := float32(math.Inf(1))
		x.F32[5*k+300] = inf // row 5: one bad block
		clear(x.F32[4*k : 4*k+256])
		raw := opstest.Plain(t, g, nil, map[string]*graph.Tensor{"x": x})["q"].Raw
		block, group, width := 32, 32, 4
		if to == graph.Q8K {
			block, group, width = 256, 16, 2
		}
		n := k + k/block*4 + k/group*width
		if len(raw) != 6*n {
			t.Fatalf("%s: 6 rows have %d bytes, want %d", to, len(raw), 6*n)
		}
		for v := range 6 {
			row, xs := raw[v*n:(v+1)*n], x.F32[v*k:(v+1)*k]
			for i := 0; i < k; i += block {
				d := math.Float32frombits(binary.LittleEndian.Uint32(row[k+i/block*4:]))
				bad := v == 5 && i <= 300 && 300 < i+block
				if bad != (d != d || d == inf) {
					t.Errorf("%s row %d block %d: scale %v", to, v, i/block, d)
				}
				for j := i; j < i+block && !bad; j++ {
					if off := math.Abs(float64(d)*float64(int8(row[j])) - float64(xs[j])); off > float64(d)*0.50001 {
						t.Fatalf("%s row %d element %d: %v stored as %d times %v", to, v, j, xs[j], int8(row[j]), d)
					}
				}
			}
			for i := 0; i < k; i += group {
				sum := 0
				for _, q := range row[i : i+group] {
					sum += int(int8(q))
				}
				at := row[k+k/block*4+i/group*width:]
				got := int(int16(binary.LittleEndian.Uint16(at)))
				if width == 4 {
					got = int(int32(binary.LittleEndian.Uint32(at)))
				}
				if got != sum {
					t.Fatalf("%s row %d group %d: sum %d, want %d", to, v, i/group, got, sum)
				}
			}
		}
	}
}
