package archs

import (
	"iter"
	"math"

	"graphrun/graph"
	"graphrun/loaders"
	"graphrun/ops"
)

// Build is a graph in the making: the graph builder, the model and its inputs,
// and the blocks that architectures share. Blocks give the values they make the
// roles that dumps show. Methods that take the name of a tensor without an
// ending, like "attn_q", mean the one of the current layer.
type Build struct {
	*graph.Builder
	M *Model
	// L is the current layer, nil outside of layers.
	L *Layer

	Tokens, Pos, Seq *graph.Value // i32[T]
	Rows             *graph.Value // i32[R]
	Pages            *graph.Value // i32[N,C]
	PagesWindow      *graph.Value // i32[N,CW], nil when no layer has a window

	kv     graph.DType
	caches map[int]*graph.Value // by layer, after this step's write
}

func newBuild(m *Model, o GraphOptions) *Build {
	b := &Build{Builder: graph.NewBuilder(m.Arch.Name), M: m, kv: o.KV, caches: map[int]*graph.Value{}}
	b.Tokens = b.Input("tokens", graph.I32, graph.Rows("T"))
	b.Pos = b.Input("pos", graph.I32, graph.Rows("T"))
	b.Seq = b.Input("seq", graph.I32, graph.Rows("T"))
	b.Rows = b.Input("rows", graph.I32, graph.Rows("R"))
	b.Pages = b.Input("pages", graph.I32, graph.Shape{graph.Named("N"), graph.Named("C")})
	if m.MaxWindow() > 0 {
		b.PagesWindow = b.Input("pages.window", graph.I32, graph.Shape{graph.Named("N"), graph.Named("CW")})
	}
	return b
}

// Layers yields the layers in order and makes each the current one.
func (b *Build) Layers() iter.Seq[*Layer] {
	return func(yield func(*Layer) bool) {
		defer func() { b.L = nil; b.SetLayer(-1) }()
		for i := range b.M.Layers {
			b.L = &b.M.Layers[i]
			b.SetLayer(i)
			if !yield(b.L) {
				return
			}
		}
	}
}

// Has reports whether the current layer uses the tensor, given with its ending:
// "attn_q.bias".
func (b *Build) Has(name string) bool { return b.M.tensors[blockName(b.L.Index, name)] != nil }

// Tensor returns the tensor of the current layer as a value.
func (b *Build) Tensor(name string) *graph.Value { return b.weight(blockName(b.L.Index, name)) }

// HasGlobal reports whether the model uses a tensor outside of layers.
func (b *Build) HasGlobal(name string) bool { return b.M.tensors[name] != nil }

// Global returns a tensor outside of layers as a value. A tied tensor is the
// value of the one it is tied to.
func (b *Build) Global(name string) *graph.Value {
	b.SetLayer(-1)
	w := b.weight(name)
	if b.L != nil {
		b.SetLayer(b.L.Index)
	}
	return w
}

func (b *Build) weight(name string) *graph.Value {
	t := b.M.tensors[name]
	if t == nil {
		b.Fail(tensorError(b.M.File, name, "the Build function of %s uses it, but the record lists no such tensor for this file", b.M.Arch.Name))
		t = &loaders.Tensor{Name: name, DType: graph.F32, Shape: []int{1}}
	}
	return b.Weight(t.Name, t.DType, graph.ShapeOf(t.Shape...))
}

// Embed looks the tokens up and multiplies by scale; 1 is no multiplication.
//
//	x[t] = token_embd[tokens[t]] · scale
//
// The result is f32[T,D].
func (b *Build) Embed(scale float64) *graph.Value {
	x := b.Name(ops.Embed(b.Builder, b.Tokens, b.Global("token_embd.weight")), "embd")
	if scale == 1 {
		return x
	}
	return b.Scale("embd.scaled", x, scale)
}

// Norm is the RMS norm of the model with a weight of the current layer, over
// the last dimension of x.
func (b *Build) Norm(role string, x *graph.Value, name string) *graph.Value {
	return b.Name(ops.RMSNorm(b.Builder, x, b.Tensor(name+".weight"), b.M.Eps), role)
}

// NormPlain is the RMS norm of the model without a weight.
func (b *Build) NormPlain(role string, x *graph.Value) *graph.Value {
	return b.Name(ops.RMSNorm(b.Builder, x, nil, b.M.Eps), role)
}

// Linear multiplies by a matrix of the current layer, by the factor beside it
// if the file has one, and adds its bias if the file has one.
//
//	y = x·wᵀ · scale + bias
func (b *Build) Linear(role string, x *graph.Value, name string) *graph.Value {
	y := ops.MatMul(b.Builder, x, b.Tensor(name+".weight"))
	if b.Has(name + ".scale") {
		y = ops.Mul(b.Builder, y, b.Tensor(name+".scale"))
	}
	if b.Has(name + ".bias") {
		y = ops.Add(b.Builder, y, b.Tensor(name+".bias"))
	}
	return b.Name(y, role)
}

// Add is x + y with a role.
func (b *Build) Add(role string, x, y *graph.Value) *graph.Value {
	return b.Name(ops.Add(b.Builder, x, y), role)
}

// Scale is x times a number known now.
func (b *Build) Scale(role string, x *graph.Value, by float64) *graph.Value {
	return b.Name(ops.Scale(b.Builder, x, float32(by)), role)
}

// Softmax turns each row of x into probabilities.
func (b *Build) Softmax(role string, x *graph.Value) *graph.Value {
	return b.Name(ops.Softmax(b.Builder, x), role)
}

// Heads regroups rows of heads: [T,n·K] to [T,n,K].
func (b *Build) Heads(x *graph.Value) *graph.Value {
	k := b.L.K
	return b.Name(ops.Reshape(b.Builder, x, max(1, x.Type.Shape.Last()/k), k), x.Name+".heads")
}

// QKV projects a to queries f32[T,H,K], keys and values f32[T,G,K], from three
// matrices or from attn_qkv, whose rows are those of the three.
func (b *Build) QKV(a *graph.Value) (q, k, v *graph.Value) {
	l := b.L
	if !b.Has("attn_qkv.weight") {
		return b.Heads(b.Linear("attn.q", a, "attn_q")),
			b.Heads(b.Linear("attn.k", a, "attn_k")),
			b.Heads(b.Linear("attn.v", a, "attn_v"))
	}
	qkv := b.Linear("attn.qkv", a, "attn_qkv")
	nq, nk := l.H*l.K, l.G*l.K
	cols := func(role string, from, to int) *graph.Value {
		return b.Heads(b.Name(ops.Cols(b.Builder, qkv, from, to), role))
	}
	return cols("attn.q", 0, nq), cols("attn.k", nq, nq+nk), cols("attn.v", nq+nk, nq+2*nk)
}

// Rope rotates the heads of x by their positions, as the layer says.
func (b *Build) Rope(role string, x *graph.Value) *graph.Value {
	var freqs *graph.Value
	if b.L.RopeFreqs {
		freqs = b.Global("rope_freqs.weight")
	}
	return b.Name(ops.Rope(b.Builder, x, b.Pos, freqs, b.L.Rope), role)
}

// Attend writes keys and values to the cache of the layer and lets the queries
// read it. k and v are nil in a layer that reads the cache of its donor. The
// result is f32[T,H·K]. A layer with attn_sinks has one score more per head.
func (b *Build) Attend(q, k, v *graph.Value) *graph.Value {
	l, pages := b.L, b.Pages
	if l.Sliding() {
		pages = b.PagesWindow
	}
	if l.OwnsKV() {
		cache := b.Cache(blockName(l.Index, "kv"), b.cacheType(), l.Window)
		b.caches[l.Index] = b.Name(ops.KVWrite(b.Builder, cache, k, v, b.Pos, b.Seq, pages), "attn.kv")
	}
	var sinks *graph.Value
	if b.Has("attn_sinks.weight") {
		sinks = b.Tensor("attn_sinks.weight")
	}
	ctx := ops.Attention(b.Builder, q, b.caches[l.KVDonor], b.Pos, b.Seq, pages, sinks,
		ops.AttnParams{Scale: l.Scale, Window: l.Window, Softcap: l.Softcap})
	return ops.Reshape(b.Builder, b.Name(ctx, "attn.ctx"), l.H*l.K) // [T,H·K]
}

// cacheType is the type of the current layer's cache. Pools of layers with a
// window are smaller, hence the other letter.
func (b *Build) cacheType() graph.Type {
	s := graph.Rows("S", 2, b.L.G, b.L.K)
	if b.L.Sliding() {
		s[0] = graph.Named("SW")
	}
	return graph.Type{DType: b.kv, Shape: s}
}

// FFN is the gated feed-forward.
//
//	y = ffn_down( act(ffn_gate z) · ffn_up z )
func (b *Build) FFN(z *graph.Value, act string) *graph.Value {
	g := b.Linear("ffn.gate", z, "ffn_gate")
	u := b.Linear("ffn.up", z, "ffn_up")
	h := b.Name(ops.Gated(b.Builder, g, u, act), "ffn.act")
	return b.Linear("ffn.out", h, "ffn_down")
}

// Choose takes the layer's number of experts with the largest p, and their
// weights. ids is i32[T,U], weights f32[T,U].
func (b *Build) Choose(p *graph.Value, params ops.TopKWeightsParams) (ids, weights *graph.Value) {
	ids = b.Name(ops.TopK(b.Builder, p, b.L.U), "moe.ids")
	return ids, b.Name(ops.TopKWeights(b.Builder, p, ids, params), "moe.weights")
}

// Experts is the gated feed-forward of the chosen experts, weighted and summed.
// ids is i32[T,U], weights f32[T,U]. The up matrices are ffn_gate_exps and
// ffn_up_exps, or ffn_gate_up_exps with the rows of both.
//
//	y = sum_u weights[u] · down_e( act(gate_e z) · up_e z ),  e = ids[u]
func (b *Build) Experts(z, ids, weights *graph.Value, act string) *graph.Value {
	var h *graph.Value
	if b.Has("ffn_gate_up_exps.weight") {
		gu := b.expertLinear("moe.gate_up", z, ids, "ffn_gate_up_exps")
		h = ops.GatedHalves(b.Builder, gu, act)
	} else {
		g := b.expertLinear("moe.gate", z, ids, "ffn_gate_exps")
		u := b.expertLinear("moe.up", z, ids, "ffn_up_exps")
		h = ops.Gated(b.Builder, g, u, act)
	}
	y := b.expertLinear("moe.down", b.Name(h, "moe.act"), ids, "ffn_down_exps")
	return b.Name(ops.ExpertSum(b.Builder, y, weights), "moe.out")
}

// expertLinear multiplies by the matrices of the chosen experts and adds their
// biases, if there are any.
func (b *Build) expertLinear(role string, x, ids *graph.Value, name string) *graph.Value {
	y := ops.ExpertMatMul(b.Builder, x, b.Tensor(name+".weight"), ids)
	if b.Has(name + ".bias") {
		y = ops.ExpertAdd(b.Builder, y, b.Tensor(name+".bias"), ids)
	}
	return b.Name(y, role)
}

// Head selects the rows whose logits are wanted and computes them, bent by
// softcap unless it is 0.
//
//	logits = softcap( output · rms(x[rows]) + output.bias )
func (b *Build) Head(x *graph.Value, softcap float32) {
	x = b.Name(ops.SelectRows(b.Builder, x, b.Rows), "out.rows")
	x = b.Name(ops.RMSNorm(b.Builder, x, b.Global("output_norm.weight"), b.M.Eps), "out.norm")
	y := ops.MatMul(b.Builder, x, b.Global("output.weight"))
	if b.HasGlobal("output.bias") {
		y = ops.Add(b.Builder, y, b.Global("output.bias"))
	}
	if softcap != 0 {
		y = ops.Softcap(b.Builder, b.Name(y, "logits.raw"), softcap)
	}
	b.Output("logits", b.Name(y, "logits"))
	b.Output("hidden", x)
}

// sqrt is the square root of an integer, rounded once, to f32, where it is used.
func sqrt(n int) float64 { return math.Sqrt(float64(n)) }
