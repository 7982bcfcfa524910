package cpu

import (
	"maps"
	"slices"

	"graphrun/backends"
	"graphrun/graph"
	"graphrun/ops"
)

// passes is the pipeline: what runs after what, one row each.
var passes = graph.MustPipeline([]graph.Pass{
	{Name: "constfold", Doc: "computes what depends on constants alone", Run: graph.ConstFold},
	{Name: "algebra", Doc: "applies equations that hold bit for bit", Run: ops.Algebra},
	{Name: "rows", Doc: "computes for the wanted rows what only they need", Run: ops.Rows},
	{Name: "fuse-gated", Doc: "gate product, up product and activation become one operation", Run: ops.FuseGated},
	{Name: "fuse-qkv", Doc: "products of the same rows become one product", Run: ops.FuseQKV},
	{Name: "fuse-residual", Doc: "a product adds its result to the residual itself", Run: ops.FuseResidual},
	{Name: "fuse-softcap", Doc: "a product bends its result itself", Run: ops.FuseSoftcap},
	{Name: "fuse-norm-residual", Doc: "a norm adds its result to the residual itself", Run: ops.FuseNormResidual},
	{Name: "fuse-rope", Doc: "keys are turned on their way to the cache", Run: ops.FuseRope},
	{Name: "quantize", Doc: "inserts quantized activations where a weight's blocks want them", Run: ops.QuantizeActivations, Required: true},
	{Name: "cse", Doc: "merges values computed twice, among them quantized activations", Run: graph.CSE},
	{Name: "fuse-norm-quantize", Doc: "a norm writes its result quantized", Run: ops.FuseNormQuantize},
	{Name: "fuse-gated-quantize", Doc: "a gated product writes its result quantized", Run: ops.FuseGatedQuantize},
	{Name: "dce", Doc: "removes values nobody uses", Run: graph.DCE, Required: true},
	{Name: "schedule", Doc: "orders values for execution", Run: graph.Schedule, Required: true, Orders: true},
	{Name: "memplan", Doc: "gives every activation a place in one arena", Run: graph.MemPlan, Required: true, Orders: true},
}, []graph.Order{
	{Before: "constfold", After: "cse", Reason: "folded values become equal constants"},
	{Before: "constfold", After: "algebra", Reason: "an equation would take a constant apart that folds as a whole"},
	{Before: "algebra", After: "fuse-residual", Reason: "a scale by one or a reshape to the same shape would hide the pattern"},
	{Before: "rows", After: "fuse-gated", Reason: "it knows the operations of a model, not what fusions make of them"},
	{Before: "rows", After: "fuse-qkv", Reason: "queries of the last layer and its keys have different rows afterwards"},
	{Before: "rows", After: "fuse-residual", Reason: "it knows the operations of a model, not what fusions make of them"},
	{Before: "fuse-gated", After: "fuse-qkv", Reason: "gate and up are products of the same rows too, and better off with their gate"},
	{Before: "fuse-gated", After: "quantize", Reason: "the pattern is a product of f32 activations"},
	{Before: "fuse-qkv", After: "fuse-residual", Reason: "projections with a bias become one product rather than three with a bias each"},
	{Before: "fuse-qkv", After: "quantize", Reason: "the pattern is products of the same f32 activation"},
	{Before: "fuse-residual", After: "quantize", Reason: "a quantize in the last layer would be a use of its own"},
	{Before: "quantize", After: "cse", Reason: "products of the same activation share one quantized copy"},
	{Before: "cse", After: "fuse-norm-quantize", Reason: "a norm must have one quantize as its only user, not one for each product"},
	{Before: "quantize", After: "fuse-gated-quantize", Reason: "the pattern ends in a quantize"},
	{Before: "cse", After: "dce", Reason: "merged values lose their users"},
	{Before: "fuse-norm-quantize", After: "dce", Reason: "what a fusion took in is dead"},
	{Before: "fuse-gated-quantize", After: "dce", Reason: "what a fusion took in is dead"},
	{Before: "dce", After: "schedule", Reason: "dead values would be computed"},
	{Before: "schedule", After: "memplan", Reason: "lifetimes are positions in the schedule"},
})

// swallowing are the fusions after which a number that is not finite cannot be
// seen where it came up. The results are the same without.
var swallowing = []string{"fuse-rope", "fuse-norm-quantize", "fuse-gated-quantize"}

// Passes returns the pipeline of the backend, for listings.
func Passes() *graph.Pipeline { return passes }

// Optimize returns a copy of g after all passes, planned for steps of up to
// o.Dims. With o.Stop it ends after that pass.
func Optimize(g *graph.Graph, o backends.Options) (*graph.Graph, error) {
	c := g.Clone()
	c.Bound = maps.Clone(o.Dims)
	off := o.Off
	if o.Finite {
		off = append(slices.Clone(off), swallowing...)
	}
	run := graph.RunOptions{Disable: off, StopAfter: o.Stop, Check: o.Check, Seed: 1}
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
