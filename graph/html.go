package graph

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"
)

// The page, its style and its program, each written by hand.
var (
	//go:embed viewer/page.html
	viewerPage string
	//go:embed viewer/page.css
	viewerStyle string
	//go:embed viewer/page.js
	viewerScript string
)

// WriteHTML writes one page that shows every state of the graph in a column: a
// single file that needs no network. file is what the graph was made from, for
// the headline.
//
// The page of the same graph is always the same: it does not tell how long
// passes took. Bytes and multiply-adds are those of a step of one token and of the largest
// step of the binding, where the graph has one.
func (h *History) WriteHTML(w io.Writer, file string) error {
	data, err := json.Marshal(h.page(file)) // escapes <, > and &
	if err != nil {
		return fmt.Errorf("graph: viewer of %s: %w", h.last().Name, err)
	}
	_, err = strings.NewReplacer(
		"{{title}}", html.EscapeString(file+" · graphrun"),
		"{{style}}", viewerStyle,
		"{{data}}", string(data),
		"{{script}}", viewerScript,
	).WriteString(w, viewerPage)
	return err
}

// The data of the page. Texts are numbers in tables, and a value that several
// states have alike is one record: 62 layers are some 3000 values.
type (
	pageData struct {
		Graph   string     `json:"graph"`
		File    string     `json:"file"`
		Steps   []pageStep `json:"steps"` // what bytes and multiply-adds are told for
		Ops     []pageOp   `json:"ops"`
		Types   []pageType `json:"types"`
		Names   []string   `json:"names"`
		Attrs   []string   `json:"attrs"`
		Origins []string   `json:"origins"`
		// Recs holds id, op, name, layer, type, attributes, origin, then bytes
		// moved and multiply-adds of each step, then the arguments' ids.
		Recs  [][]int     `json:"recs"`
		Cols  []pageState `json:"cols"`
		Kinds []int       `json:"kinds"` // of the layers; equal ones fold
	}
	pageStep struct {
		Name string `json:"name"`
		Dims Dims   `json:"dims"`
	}
	pageOp struct {
		Name string `json:"name"`
		Doc  string `json:"doc"`
		Kind string `json:"kind"` // op, view, state, input, weight, const, cache
	}
	pageType struct {
		DType string `json:"dtype"`
		Shape string `json:"shape"`
		Bytes []int  `json:"bytes"` // in each step
	}
	pageState struct {
		Passes  []pagePass   `json:"passes"`
		Recs    []int        `json:"recs"` // in graph order
		Outputs []jsonOutput `json:"outputs"`
		Arena   int          `json:"arena,omitempty"`
		// Mem is offset, size, first and last step of each value that has a
		// place, its position in Recs before them.
		Mem [][5]int `json:"mem,omitempty"`
	}
	pagePass struct {
		Name string `json:"name"`
		Off  bool   `json:"off,omitempty"`
	}
)

// tableOf numbers the distinct items of a list in order of appearance.
type tableOf[T comparable] struct {
	list []T
	at   map[T]int
}

func (t *tableOf[T]) index(x T) int {
	i, ok := t.at[x]
	if !ok {
		if t.at == nil {
			t.at = map[T]int{}
		}
		i = len(t.list)
		t.at[x] = i
		t.list = append(t.list, x)
	}
	return i
}

// pager makes the data of the page.
type pager struct {
	page                  pageData
	bound                 []Dims
	ops                   tableOf[*Op]
	types, names          tableOf[string]
	attrs, origins, texts tableOf[string]
}

func (h *History) page(file string) pageData {
	p := &pager{page: pageData{Graph: h.last().Name, File: file, Steps: []pageStep{}, Kinds: h.kinds()}}
	p.bind(h)
	for i := range h.states {
		p.state(&h.states[i])
	}
	for _, op := range p.ops.list {
		p.page.Ops = append(p.page.Ops, pageOp{op.Name, op.Doc, kindOf(op)})
	}
	p.page.Names, p.page.Attrs, p.page.Origins = p.names.list, p.attrs.list, p.origins.list
	return p.page
}

// bind chooses the steps that costs are told for: none when a dimension of a
// value is not bound.
func (p *pager) bind(h *History) {
	b := h.bound()
	for i := range h.states {
		for _, v := range h.states[i].graph.Values {
			if _, err := bytesUnder(v.Type, b); err != nil {
				return
			}
		}
	}
	add := func(name string, b Dims) {
		p.bound = append(p.bound, b)
		p.page.Steps = append(p.page.Steps, pageStep{name, b})
	}
	add("one token", oneToken(b))
	if t := b["T"]; t > 1 {
		add(fmt.Sprintf("%d tokens", t), b)
	}
}

// kinds returns which layers are alike in all states.
func (h *History) kinds() []int {
	var sum []hasher
	for i := range h.states {
		for l, x := range layerHashes(h.states[i].graph) {
			if l == len(sum) {
				sum = append(sum, 0)
			}
			if x != 0 {
				sum[l].word(x)
			}
		}
	}
	out := make([]uint64, len(sum))
	for l, x := range sum {
		out[l] = uint64(x)
	}
	return numberKinds(out)
}

// state adds a column.
func (p *pager) state(s *state) {
	c := pageState{Recs: make([]int, len(s.graph.Values)), Outputs: []jsonOutput{}, Arena: s.graph.Arena}
	for _, t := range s.passes {
		c.Passes = append(c.Passes, pagePass{t.Pass, t.Disabled})
	}
	for i, v := range s.graph.Values {
		c.Recs[i] = p.record(v)
		if m := v.Mem; m != nil {
			c.Mem = append(c.Mem, [5]int{i, m.Offset, m.Size, m.First, m.Last})
		}
	}
	for _, o := range s.graph.Outputs {
		c.Outputs = append(c.Outputs, jsonOutput{o.Name, o.Value.ID})
	}
	p.page.Cols = append(p.page.Cols, c)
}

// record returns the number of the record of v.
func (p *pager) record(v *Value) int {
	r := []int{v.ID, p.ops.index(v.Op), p.names.index(v.Name), v.Layer, p.typ(v.Type),
		p.attrs.index(strings.Trim(string(v.appendAttrs(nil)), " {}")), p.origins.index(v.Origin)}
	for _, b := range p.bound {
		c := CostOf(v, b)
		if v.Op.Is(Leaf) {
			c = Cost{}
		}
		r = append(r, c.Bytes, c.MACs)
	}
	for _, a := range v.Args {
		r = append(r, a.ID)
	}
	i := p.texts.index(fmt.Sprint(r))
	if i == len(p.page.Recs) {
		p.page.Recs = append(p.page.Recs, r)
	}
	return i
}

func (p *pager) typ(t Type) int {
	i := p.types.index(t.String())
	if i == len(p.page.Types) {
		pt := pageType{DType: t.DType.String(), Shape: t.Shape.String(), Bytes: []int{}}
		for _, b := range p.bound {
			pt.Bytes = append(pt.Bytes, t.Bytes(b))
		}
		p.page.Types = append(p.page.Types, pt)
	}
	return i
}

// kindOf returns the word the page styles an operation by.
func kindOf(op *Op) string {
	switch {
	case op == OpInput, op == OpWeight, op == OpConst, op == OpCache:
		return op.Name
	case op.Is(View):
		return "view"
	case op.Is(State):
		return "state"
	}
	return "op"
}
