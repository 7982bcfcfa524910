package cpu

import (
	"graphrun/backends/cpu/kern"
)

// A worker that waits for the next stage brings the weights it will read there
// into its cache, so that the memory is not idle while one worker does what is
// serial or finishes the last chunk. Nothing is read: no result depends on it,
// and a mapped file that shrank cannot fault.

const (
	// aheadMost bounds the bytes brought near: half of a second-level cache of
	// 1 MiB.
	aheadMost = 512 << 10
	// aheadPiece is what is asked for between two looks at the stage, below a
	// microsecond.
	aheadPiece = 8 << 10
)

// ahead says which weights a worker reads first in a stage, or in the next one
// that has products.
type ahead struct {
	stage int32   // -1: none
	parts []int32 // from and to in plan.near
}

// cursor is how far a worker has come with what it brings near.
type cursor struct {
	run   uint32 // program.runs, so that each step begins anew
	stage int32
	part  int32
	off   int
	_     [40]byte
}

// listAhead fills in what the workers can bring near before each stage.
func (pl *plan) listAhead() {
	pl.near = pl.near[:0]
	for s := len(pl.stages) - 1; s >= 0; s-- {
		st := &pl.stages[s]
		st.ahead.parts = st.ahead.parts[:0]
		begin := len(pl.near)
		for w := range pl.workers {
			st.ahead.parts = append(st.ahead.parts, int32(len(pl.near)))
			left := aheadMost
			for _, c := range st.chunks[st.first[w]:st.first[w+1]] {
				for i := range pl.instrs[c.instr].mats {
					m := &pl.instrs[c.instr].mats[i]
					row := m.Type.RowBytes(m.K)
					lo, hi := min(max(int(c.lo)-m.first, 0), m.N), min(max(int(c.hi)-m.first, 0), m.N)
					part := m.Data[lo*row : hi*row]
					part = part[:min(left, len(part))]
					left -= len(part)
					if len(part) > 0 {
						pl.near = append(pl.near, part)
					}
				}
			}
		}
		st.ahead.parts = append(st.ahead.parts, int32(len(pl.near)))
		st.ahead.stage = int32(s)
		if begin == len(pl.near) {
			st.ahead.stage = -1
			if s+1 < len(pl.stages) {
				st.ahead.stage = pl.stages[s+1].ahead.stage
			}
		}
	}
}

// idle implements job: it brings a piece of the weights of the coming stage near
// worker w, and reports whether there was one.
func (p *program) idle(w, k int) bool {
	pl := p.last
	s := int(pl.opened[k]) + 1
	if s >= len(pl.stages) {
		return false
	}
	to := pl.stages[s].ahead.stage
	if to < 0 {
		return false
	}
	parts := pl.stages[to].ahead.parts
	c := &p.cursors[w]
	if c.run != p.runs || c.stage != to {
		*c = cursor{run: p.runs, stage: to, part: parts[w]}
	}
	if c.part >= parts[w+1] {
		return false
	}
	part := pl.near[c.part]
	end := min(len(part), c.off+aheadPiece)
	kern.Prefetch(part[c.off:end])
	if c.off = end; end == len(part) {
		c.part, c.off = c.part+1, 0
	}
	return true
}
