package engine

import (
	"errors"
	"fmt"
	"slices"

	"graphrun/graph"
	"graphrun/loaders"
)

// Parts returns the names that Options.Drop knows.
//
//	ffn    the feed-forward of every layer, its norms and experts: a layer adds its attention only
//	attn   the attention of every layer, and with it the KV cache: a layer adds its feed-forward only
//	head   the matrix of the logits: there is the hidden state alone, as Embed needs it
//	embed  the table of token embeddings: an item of a step brings states instead
func Parts() []string { return []string{"ffn", "attn", "head", "embed"} }

// DropUse is what a part would have read.
type DropUse struct {
	Part    string
	Tensors int
	Bytes   int
}

// ErrNoHead says that logits were asked of a model that was opened without its
// head.
var ErrNoHead = errors.New("engine: the model was opened without its head: there are no logits")

// stateInput is the input that stands for the embeddings of the tokens.
const stateInput = "embd"

// dropParts takes parts out of a graph, with everything that only they need,
// and returns what the graph no longer reads.
func dropParts(g *graph.Graph, parts []string) ([]DropUse, error) {
	var list []DropUse
	for i, part := range parts {
		if slices.Contains(parts[:i], part) {
			return nil, fmt.Errorf("engine: part %q is dropped twice", part)
		}
		tensors, bytes := weightUse(g)
		var err error
		switch part {
		case "ffn", "attn":
			err = dropBranch(g, part+".res")
		case "head":
			g.Outputs = slices.DeleteFunc(g.Outputs, func(o graph.Output) bool { return o.Name == "logits" })
			if len(g.Outputs) == 0 {
				err = ErrNoHidden
			}
		case "embed":
			err = dropEmbed(g)
		default:
			err = &loaders.UnsupportedError{What: "part to drop", Name: fmt.Sprintf("%q", part), Known: Parts()}
		}
		if err != nil {
			return nil, err
		}
		prune(g)
		n, rest := weightUse(g)
		list = append(list, DropUse{Part: part, Tensors: tensors - n, Bytes: bytes - rest})
	}
	return list, nil
}

// dropBranch makes every residual sum of a role its first operand, the stream.
func dropBranch(g *graph.Graph, role string) error {
	found := false
	for _, v := range slices.Clone(g.Values) {
		if v.Name == role && v.Op.Name == "add" {
			g.Replace(v, v.Args[0])
			found = true
		}
	}
	if !found {
		return fmt.Errorf("engine: graph %s has no sum called %q, so that branch cannot be dropped", g.Name, role)
	}
	return nil
}

// dropEmbed makes the looked-up embedding an input.
func dropEmbed(g *graph.Graph) error {
	for _, v := range g.Values {
		if v.Name == stateInput && v.Op.Name == "embed" {
			v.Op, v.Args, v.Attrs = graph.OpInput, nil, nil
			return nil
		}
	}
	return fmt.Errorf("engine: graph %s has no lookup called %q, so the embeddings cannot be dropped", g.Name, stateInput)
}

// prune removes what no output needs, writes to caches included; inputs stay.
func prune(g *graph.Graph) {
	needed := map[*graph.Value]bool{}
	var need func(v *graph.Value)
	need = func(v *graph.Value) {
		if needed[v] {
			return
		}
		needed[v] = true
		for _, a := range v.Args {
			need(a)
		}
	}
	for _, o := range g.Outputs {
		need(o.Value)
	}
	g.Values = slices.DeleteFunc(g.Values, func(v *graph.Value) bool { return !needed[v] && v.Op != graph.OpInput })
}

// weightUse counts the tensors that a graph reads.
func weightUse(g *graph.Graph) (tensors, bytes int) {
	for _, v := range g.Values {
		if v.Op == graph.OpWeight {
			tensors++
			bytes += v.Type.Bytes(nil)
		}
	}
	return tensors, bytes
}

// leaveUnused keeps the tensors of parts that were dropped out of memory.
func (m *Model) leaveUnused() {
	if m.File == nil || len(m.o.Drop) == 0 {
		return
	}
	used := map[string]bool{}
	for _, v := range m.Graph.Values {
		used[v.Name] = used[v.Name] || v.Op == graph.OpWeight
	}
	for _, t := range m.File.Tensors {
		if !used[t.Name] {
			t.Leave()
		}
	}
}

// headless reports whether there are no logits.
func (m *Model) headless() bool { return m.Graph.Output("logits") == nil }
