package graph

import (
	"cmp"
	"slices"
)

// box is a node of a layered drawing, or a bend of a long edge (node < 0). x is
// its middle, y its top.
type box struct {
	node  int // index given by the caller, -1 for a bend
	level int
	w, h  float64
	x, y  float64
	in    []int32 // boxes above it that it is joined to
	out   []int32 // boxes below
}

// link is an edge from a node to a node further down.
type link struct{ from, to int }

// layout arranges nodes in levels from top to bottom. Its work is linear in
// nodes and links, up to the sorting of levels: an edge gets bends for at most
// maxSpan levels, and the bends of one node's edges are shared.
type layout struct {
	boxes  []box
	nodes  int // boxes before it stand for nodes
	levels [][]int32
	far    []link // links over more than maxSpan levels, which are not drawn as lines
	w, h   float64
}

const (
	maxSpan  = 40 // levels an edge may cross as a line
	gapX     = 22 // between boxes of a level
	gapY     = 38 // between levels, with room for the top of a frame
	bendW    = 4
	rounds   = 6 // of ordering and of placing
	frameTop = 24
)

// newLayout places nodes of the given sizes. Links must go from lower to higher
// indices. Nodes marked late stand as low as what uses them allows.
func newLayout(w, h []float64, late []bool, links []link) *layout {
	l := &layout{nodes: len(w)}
	l.level(w, h, late, links)
	l.bend(links)
	l.order()
	l.place()
	return l
}

// level puts each node as high as its links allow, then late ones as low as
// theirs allow.
func (l *layout) level(w, h []float64, late []bool, links []link) {
	l.boxes = make([]box, len(w))
	for i := range l.boxes {
		l.boxes[i] = box{node: i, w: w[i], h: h[i]}
	}
	byTarget := make([][]int32, len(w))
	bySource := make([][]int32, len(w))
	for _, k := range links {
		byTarget[k.to] = append(byTarget[k.to], int32(k.from))
		bySource[k.from] = append(bySource[k.from], int32(k.to))
	}
	deepest := 0
	for i := range l.boxes {
		for _, a := range byTarget[i] {
			l.boxes[i].level = max(l.boxes[i].level, l.boxes[a].level+1)
		}
		deepest = max(deepest, l.boxes[i].level)
	}
	for i := len(l.boxes) - 1; i >= 0; i-- {
		if !late[i] || len(bySource[i]) == 0 {
			continue
		}
		low := deepest
		for _, u := range bySource[i] {
			low = min(low, l.boxes[u].level-1)
		}
		l.boxes[i].level = low
	}
	l.levels = make([][]int32, deepest+1)
	for i := range l.boxes {
		l.levels[l.boxes[i].level] = append(l.levels[l.boxes[i].level], int32(i))
	}
}

// bend joins the boxes, with a chain of bends below each node whose links cross
// levels.
func (l *layout) bend(links []link) {
	reach := make([]int, l.nodes) // lowest level a line of the node goes to
	for _, k := range links {
		if to := l.boxes[k.to].level; to-l.boxes[k.from].level <= maxSpan {
			reach[k.from] = max(reach[k.from], to)
		}
	}
	chain := make([]int32, l.nodes) // first bend of the node's chain
	for i := range l.nodes {
		last := int32(i)
		for lev := l.boxes[i].level + 1; lev < reach[i]; lev++ {
			k := int32(len(l.boxes))
			l.boxes = append(l.boxes, box{node: -1, level: lev, w: bendW})
			l.levels[lev] = append(l.levels[lev], k)
			l.join(last, k)
			if chain[i] == 0 {
				chain[i] = k
			}
			last = k
		}
	}
	for _, k := range links {
		from, to := &l.boxes[k.from], &l.boxes[k.to]
		switch span := to.level - from.level; {
		case span > maxSpan:
			l.far = append(l.far, k)
		case span == 1:
			l.join(int32(k.from), int32(k.to))
		default:
			l.join(chain[k.from]+int32(span-2), int32(k.to))
		}
	}
}

func (l *layout) join(a, b int32) {
	l.boxes[a].out = append(l.boxes[a].out, b)
	l.boxes[b].in = append(l.boxes[b].in, a)
}

// order sorts each level by the mean place of the neighbours above and below in
// turn, which leaves few crossings.
func (l *layout) order() {
	at := make([]float64, len(l.boxes))
	key := make([]float64, len(l.boxes))
	set := func(level []int32) {
		for i, b := range level {
			at[b] = float64(i) - float64(len(level)-1)/2
		}
	}
	for _, level := range l.levels {
		set(level)
	}
	for r := range rounds {
		for i := range l.levels {
			level := l.levels[i]
			if r%2 == 1 {
				level = l.levels[len(l.levels)-1-i]
			}
			for _, b := range level {
				near := l.boxes[b].in
				if r%2 == 1 {
					near = l.boxes[b].out
				}
				key[b] = mean(near, at, at[b])
			}
			slices.SortStableFunc(level, func(a, b int32) int { return cmp.Compare(key[a], key[b]) })
			set(level)
		}
	}
}

// mean returns the mean of x over list, or otherwise when the list is empty.
func mean(list []int32, x []float64, otherwise float64) float64 {
	if len(list) == 0 {
		return otherwise
	}
	s := 0.0
	for _, i := range list {
		s += x[i]
	}
	return s / float64(len(list))
}

// place gives coordinates: each level as near to its neighbours as the order and
// the gaps allow, from above and from below in turn.
func (l *layout) place() {
	x := make([]float64, len(l.boxes))
	want := make([]float64, len(l.boxes))
	for r := range rounds {
		for i := range l.levels {
			level := l.levels[i]
			if r%2 == 1 {
				level = l.levels[len(l.levels)-1-i]
			}
			for _, b := range level {
				near := l.boxes[b].in
				if r%2 == 1 {
					near = l.boxes[b].out
				}
				want[b] = mean(near, x, x[b])
			}
			l.settle(level, want, x)
		}
	}
	left, right := 0.0, 0.0
	for i := range l.boxes {
		b := &l.boxes[i]
		b.x = x[i]
		left, right = min(left, b.x-b.w/2), max(right, b.x+b.w/2)
	}
	for i := range l.boxes {
		l.boxes[i].x -= left
	}
	l.w = right - left
	for _, level := range l.levels {
		tall := 0.0
		for _, b := range level {
			tall = max(tall, l.boxes[b].h)
		}
		for _, b := range level {
			l.boxes[b].y = l.h
			if l.boxes[b].node < 0 {
				l.boxes[b].h = tall
			}
		}
		l.h += tall + gapY
	}
	l.h -= gapY
}

// settle sets x of the boxes of a level, in their order and without overlap, to
// the places nearest to want in the least-squares sense: pool adjacent
// violators.
func (l *layout) settle(level []int32, want, x []float64) {
	type pool struct {
		sum   float64 // of want less the offset of each box
		count float64
		from  int
	}
	var pools []pool
	offset := make([]float64, len(level)) // of a box if all stood side by side
	for i, b := range level {
		if i > 0 {
			a := level[i-1]
			offset[i] = offset[i-1] + l.boxes[a].w/2 + l.boxes[b].w/2 + gapX
		}
		p := pool{want[b] - offset[i], 1, i}
		for len(pools) > 0 {
			q := pools[len(pools)-1]
			if q.sum/q.count <= p.sum/p.count {
				break
			}
			p = pool{q.sum + p.sum, q.count + p.count, q.from}
			pools = pools[:len(pools)-1]
		}
		pools = append(pools, p)
	}
	for k, p := range pools {
		end := len(level)
		if k+1 < len(pools) {
			end = pools[k+1].from
		}
		for i := p.from; i < end; i++ {
			x[level[i]] = p.sum/p.count + offset[i]
		}
	}
}
