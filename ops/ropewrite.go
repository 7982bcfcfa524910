package ops

import "graphrun/graph"

var opRopeWrite = graph.Register(&graph.Op{
	Name: "ropewrite", Doc: "kvwrite of keys that are turned on the way",
	MinArgs: 6, MaxArgs: 7, Flags: graph.State,
	Attrs: ropeAttrs(),
	Infer: inferRopeWrite, Prepare: prepareRopeWrite, Units: kvwriteUnits, Kernel: ropeWriteKernel, Cost: kvwriteCost,
})

// RopeWrite turns the keys of a step and stores them with its values, made by
// the pass fuse-rope: KVWrite(cache, Rope(k, pos, factors), v, pos, seq, pages).
//
// Operands are KVWrite's, and the frequency factors of Rope or nil; p are Rope's
// numbers. The result is the cache after the change.
// The builder records ErrShape as Rope and KVWrite.
func RopeWrite(b *graph.Builder, cache, k, v, pos, seq, pages, factors *graph.Value, p RopeParams) *graph.Value {
	args := []*graph.Value{cache, k, v, pos, seq, pages}
	if factors != nil {
		args = append(args, factors)
	}
	return b.Op(opRopeWrite, p.attrs(k.Type.Shape.Last()), args...)
}

func inferRopeWrite(a []graph.Type, at graph.Attrs) (graph.Type, error) {
	if _, err := inferRope(append([]graph.Type{a[1], a[3]}, a[6:]...), at); err != nil {
		return graph.Type{}, err
	}
	return inferKVWrite(a, at)
}

// RopeWriteParam is what RopeWrite's kernel knows before it runs; backends share
// it.
type RopeWriteParam struct {
	Rope   *RopeParam
	Layout CacheLayout
}

func prepareRopeWrite(v *graph.Value) (any, error) {
	l := LayoutOf(v.Type)
	return &RopeWriteParam{newRopeParam(v.Attrs, l.K), l}, nil
}

func ropeWriteKernel(c *graph.Call, lo, hi int) {
	p := c.Param.(*RopeWriteParam)
	var head [MaxHeadWidth]float32
	for t := lo; t < hi; t++ {
		pos, k, v := int(c.In[3].I32[t]), c.In[1].Row(t), c.In[2].Row(t)
		page, slot := PageOf(c.In[5], int(c.In[4].I32[t]), pos), pos%PageSize
		n := p.Layout.K
		for g := range p.Layout.G {
			p.Rope.Turn(head[:n], k[g*n:(g+1)*n], pos, factorsOf(c, 6))
			p.Layout.storeKey(c.Out.Raw[p.Layout.Keys(page, g, slot/KeyBlock):], slot%KeyBlock, head[:n])
			p.Layout.storeValue(c.Out.Raw[p.Layout.Values(page, g, slot):], v[g*n:(g+1)*n])
		}
	}
}
