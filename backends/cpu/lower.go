package cpu

import (
	"maps"

	"graphrun/backends"
	"graphrun/graph"
	"graphrun/ops"
)

// passes is the pipeline: what runs after what, one row each.
var passes = graph.MustPipeline([]graph.Pass{
	{Name: "constfold", Doc: "computes what depends on constants alone", Run: graph.ConstFold},
	{Name: "fuse-gated", Doc: "gate product, up product and activation become one operation", Run: ops.FuseGated},
	{Name: "quantize", Doc: "inserts quantized activations where a weight's blocks want them", Run: ops.QuantizeActivations, Required: true},
	{Name: "cse", Doc: "merges values computed twice, among them quantized activations", Run: graph.CSE},
	{Name: "dce", Doc: "removes values nobody uses", Run: graph.DCE},
	{Name: "schedule", Doc: "orders values for execution", Run: graph.Schedule, Required: true, Orders: true},
	{Name: "memplan", Doc: "gives every activation a place in one arena", Run: graph.MemPlan, Required: true, Orders: true},
}, []graph.Order{
	{Before: "constfold", After: "cse", Reason: "folded values become equal constants"},
	{Before: "fuse-gated", After: "quantize", Reason: "the pattern is a product of f32 activations"},
	{Before: "quantize", After: "cse", Reason: "products of the same activation share one quantized copy"},
	{Before: "cse", After: "dce", Reason: "merged values lose their users"},
	{Before: "dce", After: "schedule", Reason: "dead values would be computed"},
	{Before: "schedule", After: "memplan", Reason: "lifetimes are positions in the schedule"},
})

// Passes returns the pipeline of the backend, for listings.
func Passes() *graph.Pipeline { return passes }

// Optimize returns a copy of g after all passes, planned for steps of up to
// o.Dims. With o.Stop it ends after that pass.
func Optimize(g *graph.Graph, o backends.Options) (*graph.Graph, error) {
	c := g.Clone()
	c.Bound = maps.Clone(o.Dims)
	run := graph.RunOptions{Disable: o.Off, StopAfter: o.Stop, Check: o.Check, Seed: 1}
	if o.OnPass != nil {
		run.Hook = func(g *graph.Graph, s graph.PassStat) { o.OnPass(s, g) }
	}
	_, err := passes.Run(c, run)
	return c, err
}

// replan returns a copy of an optimized graph with the memory plan of other
// maxima.
func replan(g *graph.Graph, dims graph.Dims) (*graph.Graph, error) {
	c := g.Clone()
	c.Bound = dims
	return c, graph.MemPlan(c)
}

// spread gives every value of a planned graph a place of its own, so that all
// are there after a step.
func spread(g *graph.Graph) {
	g.Arena = 0
	for _, v := range g.Values {
		if v.Mem != nil {
			v.Mem.Offset = g.Arena
			g.Arena += (v.Mem.Size + 63) &^ 63
		}
	}
}
