package kern

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/x448/float16"

	"graphrun/graph"
	"graphrun/ops"
)

// attnCase is a step over a cache of random numbers.
type attnCase struct {
	a     Attention
	steps []struct{ seq, from, to int } // tokens: positions from to to-1
	ring  int
	sinks bool
}

func (c *attnCase) String() string {
	a := &c.a
	return fmt.Sprintf("%v/%dof%dx%d/window-%d-softcap-%v-sinks-%v", a.Type, a.H, a.G, a.K, a.Window, a.Softcap, c.sinks)
}

// fillCache writes random numbers of the type, 16 to a block where scales are.
func fillCache(t graph.DType, pool []byte, r *rand.Rand) {
	switch t {
	case graph.F32:
		for i := 0; i < len(pool); i += 4 {
			putF32(pool, i, float32(r.NormFloat64()))
		}
	case graph.F16:
		for i := 0; i < len(pool); i += 2 {
			binary.LittleEndian.PutUint16(pool[i:], float16.Fromfloat32(float32(r.NormFloat64())).Bits())
		}
	}
}

// step makes the operands.
func (c *attnCase) step(t testing.TB, seed uint64) *AttnStep {
	r := rand.New(rand.NewPCG(seed, 7))
	a := &c.a
	st := &AttnStep{LdQ: a.H*a.K + 3, LdY: a.H*a.K + 5, Ring: c.ring, LdPages: c.ring + 1}
	seqs := 0
	for _, s := range c.steps {
		for p := s.from; p < s.to; p++ {
			st.Pos, st.Seq = append(st.Pos, int32(p)), append(st.Seq, int32(s.seq))
		}
		seqs = max(seqs, s.seq+1)
	}
	st.T = len(st.Pos)
	st.Q, st.Y = make([]float32, st.T*st.LdQ), make([]float32, st.T*st.LdY)
	for i := range st.Q {
		st.Q[i] = float32(r.NormFloat64())
	}
	layout := ops.CacheLayout{DType: a.Type, G: a.G, K: a.K}
	pages := seqs*c.ring + 1
	st.Pool = guarded(t, pages*layout.PageBytes())
	fillCache(a.Type, st.Pool, r)
	if a.Type == graph.Q8_0 {
		q := make([]byte, 34)
		for area := 0; area < len(st.Pool); area += layout.AreaBytes() {
			keys := st.Pool[area : area+layout.AreaBytes()/2]
			for i := range keys {
				keys[i] = byte(r.IntN(255) - 127)
			}
			for g := 0; g < len(keys); g += 34 * 16 {
				for i := range 16 {
					binary.LittleEndian.PutUint16(keys[g+2*i:], float16.Fromfloat32(0.001+0.02*r.Float32()).Bits())
				}
			}
			values := st.Pool[area+layout.AreaBytes()/2 : area+layout.AreaBytes()]
			for g := 0; g < len(values); g += 34 {
				for i := range q {
					q[i] = byte(r.IntN(255) - 127)
				}
				copy(values[g:], q)
				binary.LittleEndian.PutUint16(values[g:], float16.Fromfloat32(0.001+0.02*r.Float32()).Bits())
			}
		}
	}
	st.Pages = make([]int32, seqs*st.LdPages)
	perm := r.Perm(pages)
	for s := range seqs {
		for i := range c.ring {
			st.Pages[s*st.LdPages+i] = int32(perm[s*c.ring+i])
		}
		st.Pages[s*st.LdPages+c.ring] = -1
	}
	if c.sinks {
		for range a.H {
			st.Sinks = append(st.Sinks, float32(3*r.NormFloat64()))
		}
	}
	return st
}

// plain runs the plain kernel of package ops, the specification.
func (c *attnCase) plain(st *AttnStep) []float32 {
	a := &c.a
	y := make([]float32, st.T*st.LdY)
	dims := []int{st.T, a.H, a.K}
	call := &graph.Call{
		In: []*graph.Tensor{
			{Dims: dims, Stride: st.LdQ, F32: st.Q}, {Raw: st.Pool}, {I32: st.Pos}, {I32: st.Seq},
			{Dims: []int{1, st.Ring}, Stride: st.LdPages, I32: st.Pages},
		},
		Out: &graph.Tensor{Dims: dims, Stride: st.LdY, F32: y},
		Param: &ops.AttentionParam{
			AttnParams: ops.AttnParams{Scale: a.Scale, Window: a.Window, Softcap: a.Softcap},
			Layout:     ops.CacheLayout{DType: a.Type, G: a.G, K: a.K}, H: a.H,
		},
	}
	if st.Sinks != nil {
		call.In = append(call.In, &graph.Tensor{F32: st.Sinks})
	}
	graph.LookupOp("attention").Kernel(call, 0, st.T*a.G)
	return y
}

// scratches are kept between calls, with what the last user left in them; new
// ones hold NaN.
var scratches sync.Pool

// scratchFor returns scratch memory that starts at a multiple of 64, and a
// check that nothing was written around it.
func scratchFor(t testing.TB, n int) (mem []byte, check func()) {
	b, _ := scratches.Get().([]byte)
	if len(b) < n+320 {
		b = make([]byte, n+320)
		for i := range b {
			b[i] = 0xff
		}
	}
	skip := 128 + int(-uintptr(unsafe.Pointer(&b[128]))&63)
	guards := [][]byte{b[skip-64 : skip], b[skip+n : skip+n+64]}
	for _, g := range guards {
		for i := range g {
			g[i] = 0xff
		}
	}
	return b[skip : skip+n], func() {
		for side, g := range guards {
			for i, v := range g {
				if v != 0xff {
					t.Helper()
					t.Fatalf("wrote outside of %d bytes of scratch memory: side %d, byte %d", n, side, i)
				}
			}
		}
		//lint:ignore SA6002 a slice header may be allocated in a test
		scratches.Put(b)
	}
}

// run computes the step in parts: at is where the work is cut, in thousandths.
func (c *attnCase) run(t testing.TB, st *AttnStep, together bool, at ...int) []float32 {
	t.Helper()
	for i := range st.Y {
		st.Y[i] = -77
	}
	shared := new(AttnShared)
	shared.Grow(&c.a)
	var wg sync.WaitGroup
	lo := 0
	for _, hi := range append(at, 1000) {
		from := lo
		part := func() {
			mem, check := scratchFor(t, c.a.ScratchBytes())
			c.a.Attend(st, from, hi, 1000, shared, mem)
			check()
		}
		if together {
			wg.Go(part)
		} else {
			part()
		}
		lo = hi
	}
	wg.Wait()
	for r := range st.T {
		for i, y := range st.Y[r*st.LdY+c.a.H*c.a.K : (r+1)*st.LdY] {
			if y != -77 {
				t.Fatalf("wrote behind row %d at %d", r, i)
			}
		}
	}
	return append([]float32(nil), st.Y...)
}

func attnCases() []*attnCase {
	var cases []*attnCase
	type steps = []struct{ seq, from, to int }
	for _, typ := range []graph.DType{graph.F32, graph.F16, graph.Q8_0} {
		add := func(h, g, k, window int, softcap float32, sinks bool, ring int, s steps) {
			if typ == graph.Q8_0 && k%32 != 0 {
				return
			}
			scale := float32(1 / math.Sqrt(float64(k)))
			cases = append(cases, &attnCase{a: Attention{Type: typ, H: h, G: g, K: k, Window: window, Scale: scale, Softcap: softcap}, steps: s, ring: ring, sinks: sinks})
		}
		for _, k := range []int{16, 32, 48, 64, 80, 96, 112, 128, 256, 512} {
			add(4, 2, k, 0, 0, false, 4, steps{{0, 150, 163}})
		}
		for group := 1; group <= 9; group++ {
			add(group, 1, 64, 0, 0, group%3 == 0, 5, steps{{0, 120, 140}, {1, 300, 301}, {0, 0, 2}})
		}
		add(64, 4, 64, 0, 0, true, 5, steps{{0, 120, 140}})
		for _, p := range []int{0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1919, 1920, 1921, 2047, 2048} {
			add(4, 1, 32, 0, 0, p%2 == 0, 40, steps{{0, p, p + 1}})
		}
		add(4, 1, 64, 0, 0, false, 70, steps{{0, 1912, 1926}, {1, 4000, 4005}})
		add(6, 3, 64, 0, 0, false, 40, steps{{0, 2040, 2054}})
		add(8, 8, 64, 0, 0, false, 20, steps{{0, 1018, 1030}})
		for _, w := range []int{1, 2, 17, 63, 64, 65, 128, 129, 400} {
			ring := (w+200+63)/64 + 2
			add(4, 2, 64, w, 0, w%2 == 0, ring, steps{{0, 700, 760}, {1, 0, 70}})
			add(4, 1, 32, w, 0, false, ring, steps{{0, 1020, 1040}, {1, 5000, 5001}})
		}
		// Few tokens and heads, whose ranges are shared out, where a token sees one
		// chunk more than the one before.
		for _, p := range []int{127, 128, 639, 1023, 2047, 2175} {
			for _, g := range []int{1, 2, 3, 4} {
				add(2*g, g, 32, 0, 0, g == 2, 40, steps{{0, p - 1, p - 1 + 8/g}})
			}
			add(4, 2, 32, 256, 0, false, 8, steps{{0, p, p + 2}, {1, 1, 2}})
		}
		add(4, 2, 64, 0, 5, false, 5, steps{{0, 70, 90}, {1, 300, 302}})
		add(8, 1, 256, 130, 50, true, 8, steps{{0, 300, 340}})
		// Tokens in any order, sequences mixed.
		add(4, 2, 64, 0, 0, false, 5, steps{{0, 7, 8}, {1, 100, 102}, {0, 3, 5}, {1, 102, 103}, {2, 200, 260}, {1, 50, 51}})
		add(2, 2, 64, 0, 0, false, 5, nil)
	}
	return cases
}

// TestAttention compares with the plain kernel. Scores and sums differ by the
// rounding of K products and of as many weights as there are positions.
func TestAttention(t *testing.T) { atVectors(t, testAttention) }

func testAttention(t *testing.T) {
	for i, c := range attnCases() {
		t.Run(c.String(), func(t *testing.T) {
			st := c.step(t, uint64(i))
			want := c.plain(st)
			got := c.run(t, st, false)
			for r := range st.T {
				for j := range c.a.H * c.a.K {
					o := r*st.LdY + j
					if d := math.Abs(float64(got[o]) - float64(want[o])); !(d <= 2e-5) {
						t.Fatalf("token %d (position %d), number %d: got %v, want %v, off by %.3g", r, st.Pos[r], j, got[o], want[o], d)
					}
				}
			}
		})
	}
}

func sameBits(t *testing.T, st *AttnStep, n int, got, want []float32) {
	t.Helper()
	for r := range st.T {
		for j := range n {
			if o := r*st.LdY + j; math.Float32bits(got[o]) != math.Float32bits(want[o]) {
				t.Fatalf("token %d (position %d), number %d: got %v, want %v", r, st.Pos[r], j, got[o], want[o])
			}
		}
	}
}

// TestAttentionBits: the bits of a result depend neither on the other tokens of
// the step nor on the division of the work.
func TestAttentionBits(t *testing.T) { atVectors(t, testAttentionBits) }

func testAttentionBits(t *testing.T) {
	for i, c := range attnCases() {
		t.Run(c.String(), func(t *testing.T) {
			st := c.step(t, uint64(i))
			want := c.run(t, st, false)
			n := c.a.H * c.a.K
			sameBits(t, st, n, c.run(t, st, false, 500), want)
			sameBits(t, st, n, c.run(t, st, true, 10, 300, 301, 500, 900, 999), want)
			var all []int
			for at := 1; at < 1000; at++ {
				all = append(all, at)
			}
			if st.T <= 2 {
				sameBits(t, st, n, c.run(t, st, false, all...), want)
			}
			if st.T*c.a.G <= attnItems {
				sameBits(t, st, n, c.run(t, st, true, 333, 667), want)
			}
			one := *st
			one.T = 1
			for r := range st.T {
				one.Q, one.Y, one.Pos, one.Seq = st.Q[r*st.LdQ:], make([]float32, st.LdY), st.Pos[r:], st.Seq[r:]
				got := c.run(t, &one, r%2 == 0, []int{500, 250, 900}[r%3])
				sameBits(t, &one, n, got, want[r*st.LdY:])
			}
		})
	}
}

// TestAttentionNaN: what no token sees does not matter, and a NaN reaches the
// tokens that see it and no others.
func TestAttentionNaN(t *testing.T) { atVectors(t, testAttentionNaN) }

func testAttentionNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, bad := range []float32{nan, float32(math.Inf(1)), float32(math.Inf(-1))} {
		for _, window := range []int{0, 20} {
			c := &attnCase{a: Attention{Type: graph.F32, H: 4, G: 2, K: 32, Window: window, Scale: 1}, ring: 6, steps: []struct{ seq, from, to int }{{0, 120, 150}}}
			clean := c.step(t, 3)
			want := c.run(t, clean, false)
			l := ops.CacheLayout{DType: graph.F32, G: 2, K: 32}
			const at = 135
			page := int(clean.Pages[at/64])
			for name, put := range map[string]int{
				"key":   l.Keys(page, 1, at%64/16) + l.KeyElem(3, at%16),
				"value": l.Values(page, 1, at%64) + 4*5,
			} {
				putF32(clean.Pool, put, bad)
				got := c.run(t, clean, false)
				for r := range clean.T {
					sees := int(clean.Pos[r]) >= at && (window == 0 || int(clean.Pos[r])-window < at)
					for h := range 4 {
						x, y := got[r*clean.LdY+h*32+5], want[r*clean.LdY+h*32+5]
						switch {
						case !sees || h < 2:
							if x != y {
								t.Errorf("%s %v, window %d: position %d head %d: %v, without it %v", name, bad, window, clean.Pos[r], h, x, y)
							}
						case bad != bad && x == x:
							t.Errorf("%s %v, window %d: position %d head %d: %v hides the NaN", name, bad, window, clean.Pos[r], h, x)
						}
					}
				}
				putF32(clean.Pool, put, 1)
				c2 := c.step(t, 3)
				copy(clean.Pool, c2.Pool)
			}
		}
	}
}

func benchAttention(b *testing.B, a Attention, T, pos int) {
	c := &attnCase{a: a, ring: (pos+T)/64 + 1, steps: []struct{ seq, from, to int }{{0, pos, pos + T}}}
	st := c.step(b, 1)
	mem, _ := scratchFor(b, a.ScratchBytes())
	macs, seen := 0, 0
	for _, p := range st.Pos {
		s := a.spanOf(int(p))
		macs += 2 * a.H * a.K * (s.last - s.first + 1)
		seen = s.last - s.first + 1
	}
	var took []float64
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	batch := max(1, 20e6/macs) // the clock of processor time is slow
	for b.Loop() {
		start := cpuTime()
		for range batch {
			a.Attend(st, 0, 1, 1, nil, mem)
		}
		took = append(took, (cpuTime()-start).Seconds()/float64(batch))
	}
	reportCPU(b, took, 1, float64(2*seen*a.G*a.rowBytes()), float64(macs))
}

func BenchmarkAttention(b *testing.B) {
	if !AttentionSupported(graph.F16, 64) {
		b.Skip("no kernel for this processor")
	}
	for _, typ := range []graph.DType{graph.F16, graph.F32, graph.Q8_0} {
		for _, s := range []struct {
			name    string
			h, g, k int
		}{{"llama1b", 32, 8, 64}, {"smollm135m", 9, 3, 64}, {"llama8b", 32, 8, 128}, {"gemma1b", 4, 1, 256}} {
			a := Attention{Type: typ, H: s.h, G: s.g, K: s.k, Scale: 0.1}
			for _, n := range []int{16, 128, 512, 4096} {
				b.Run(fmt.Sprintf("one/%v/%s/%d/%s", typ, s.name, n, Level()), func(b *testing.B) { benchAttention(b, a, 1, n-1) })
			}
			b.Run(fmt.Sprintf("many/%v/%s/512/%s", typ, s.name, Level()), func(b *testing.B) { benchAttention(b, a, 512, 0) })
		}
	}
}

// BenchmarkAttentionPlain is the specification's speed.
func BenchmarkAttentionPlain(b *testing.B) {
	c := &attnCase{a: Attention{Type: graph.F16, H: 32, G: 8, K: 64, Scale: 0.1}, ring: 9, steps: []struct{ seq, from, to int }{{0, 511, 512}}}
	st := c.step(b, 1)
	for b.Loop() {
		c.plain(st)
	}
}

func TestAttentionAllocatesNothing(t *testing.T) { atVectors(t, testAttentionAllocatesNothing) }

func testAttentionAllocatesNothing(t *testing.T) {
	for _, c := range []*attnCase{
		{a: Attention{Type: graph.Q8_0, H: 4, G: 1, K: 64, Softcap: 3}, ring: 9, steps: []struct{ seq, from, to int }{{0, 500, 501}}},
		{a: Attention{Type: graph.F16, H: 4, G: 1, K: 64}, ring: 9, steps: []struct{ seq, from, to int }{{0, 480, 501}}},
	} {
		st := c.step(t, 1)
		mem, _ := scratchFor(t, c.a.ScratchBytes())
		shared := new(AttnShared)
		shared.Grow(&c.a)
		if n := testing.AllocsPerRun(3, func() {
			c.a.Attend(st, 0, 500, 1000, shared, mem)
			c.a.Attend(st, 500, 1000, 1000, shared, mem)
		}); n != 0 {
			t.Errorf("%v: %v allocations", c, n)
		}
	}
}

// TestAttentionTiles compares the rule for tiles with its meaning: tokens of a
// tile see positions in the same ranges.
func TestAttentionTiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 20000 {
		a := Attention{Type: graph.F16, H: 4, G: 1 << r.IntN(3), K: 16}
		a.H *= a.G
		if r.IntN(2) == 0 {
			a.Window = 1 + r.IntN(3000)
		}
		st := &AttnStep{T: 12}
		p := r.IntN(5000)
		for i := range st.T {
			st.Pos, st.Seq = append(st.Pos, int32(p+i)), append(st.Seq, 0)
		}
		s := a.spanOf(p)
		n := a.tile(st, 0, s)
		if n < 1 || n > 12 {
			t.Fatalf("%+v at %d: a tile of %d tokens", a, p, n)
		}
		for i := range n {
			if e := a.spanOf(p + i); e.size != s.size || e.lo != s.lo || e.hi != s.hi {
				t.Fatalf("%+v: position %d has ranges %+v, position %d of the same tile %+v", a, p, s, p+i, e)
			}
		}
	}
}
