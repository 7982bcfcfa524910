package graph

import (
	"encoding/json"
	"io"
	"math"
)

// The form of WriteJSON. Field order is fixed by these structs, keys of maps
// are sorted by encoding/json, so the bytes are stable.
type (
	jsonGraph struct {
		Name    string       `json:"name"`
		Bound   Dims         `json:"bound,omitempty"`
		Arena   int          `json:"arena,omitempty"`
		Values  []jsonValue  `json:"values"`
		Outputs []jsonOutput `json:"outputs"`
		Summary *Summary     `json:"summary,omitempty"`
	}
	jsonValue struct {
		ID     int            `json:"id"`
		Op     string         `json:"op"`
		Args   []int          `json:"args,omitempty"`
		Attrs  map[string]any `json:"attrs,omitempty"`
		DType  string         `json:"dtype"`
		Shape  []any          `json:"shape"` // numbers and names
		Name   string         `json:"name,omitempty"`
		Layer  *int           `json:"layer,omitempty"`
		Origin string         `json:"origin,omitempty"`
		Elems  int            `json:"data_elems,omitempty"` // of a const
		Mem    *jsonMem       `json:"mem,omitempty"`
		Cost   *jsonCost      `json:"cost,omitempty"`
	}
	jsonMem struct {
		Offset int `json:"offset"`
		Size   int `json:"size"`
		First  int `json:"first"`
		Last   int `json:"last"`
	}
	jsonCost struct {
		MACs  int `json:"macs"`
		Bytes int `json:"bytes"`
	}
	jsonOutput struct {
		Name string `json:"name"`
		ID   int    `json:"id"`
	}
)

// WriteJSON writes the graph for programs: values with attributes, types,
// places in the arena and, when the binding covers every named dimension, costs
// and a summary. A nil binding is that of the memory plan. Numbers that JSON
// does not have (NaN, infinities) become strings. The numbers of consts are left
// out; the text form has them.
func (g *Graph) WriteJSON(w io.Writer, b Dims) error {
	if b == nil {
		b = g.Bound
	}
	out := jsonGraph{Name: g.Name, Bound: g.Bound, Arena: g.Arena, Values: make([]jsonValue, len(g.Values)), Outputs: []jsonOutput{}}
	if s, err := Summarize(g, b); err == nil {
		out.Summary = &s
	}
	for i, v := range g.Values {
		j := jsonValue{ID: v.ID, Op: v.Op.Name, DType: v.Type.DType.String(), Shape: []any{}, Name: v.Name, Origin: v.Origin, Elems: len(v.Data)}
		for _, a := range v.Args {
			j.Args = append(j.Args, a.ID)
		}
		for _, d := range v.Type.Shape {
			if d.Name != "" {
				j.Shape = append(j.Shape, d.Name)
			} else {
				j.Shape = append(j.Shape, d.Size)
			}
		}
		if len(v.Attrs) > 0 {
			j.Attrs = make(map[string]any, len(v.Attrs))
			for _, x := range v.Attrs {
				j.Attrs[x.Key] = jsonAttr(x.Val)
			}
		}
		if v.Layer >= 0 {
			j.Layer = &v.Layer
		}
		if m := v.Mem; m != nil {
			j.Mem = &jsonMem{m.Offset, m.Size, m.First, m.Last}
		}
		if out.Summary != nil && !v.Op.Is(Leaf) {
			c := CostOf(v, b)
			j.Cost = &jsonCost{c.MACs, c.Bytes}
		}
		out.Values[i] = j
	}
	for _, o := range g.Outputs {
		out.Outputs = append(out.Outputs, jsonOutput{o.Name, o.Value.ID})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(out)
}

func jsonAttr(v any) any {
	switch v := v.(type) {
	case float32:
		return jsonFloat(v)
	case []float32:
		list := make([]any, len(v))
		for i, f := range v {
			list[i] = jsonFloat(f)
		}
		return list
	}
	return v
}

func jsonFloat(f float32) any {
	if x := float64(f); math.IsNaN(x) || math.IsInf(x, 0) {
		return floatText(f)
	}
	return f
}
