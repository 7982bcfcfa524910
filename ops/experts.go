package ops

import "graphrun/graph"

func topKKernel(c *graph.Call, lo, hi int) {
	k := c.Out.Dims[1]
	for t := lo; t < hi; t++ {
		p, ids := c.In[0].Row(t), c.Out.I32[t*c.Out.Stride:][:k]
		for u := range ids {
			best := -1
			for e, x := range p {
				// Strictly greater: of equal numbers the lower index stays. The
				// first candidate is replaced by any number if it is NaN.
				if !chosen(ids[:u], e) && (best < 0 || x > p[best] || p[best] != p[best] && x == x) {
					best = e
				}
			}
			ids[u] = int32(best)
		}
	}
}

func chosen(ids []int32, e int) bool {
	for _, id := range ids {
		if int(id) == e {
			return true
		}
	}
	return false
}

func prepareTopKWeights(v *graph.Value) (any, error) {
	return &TopKWeightsParams{
		Normalize: v.Attrs.Bool("normalize"), SoftmaxOverChosen: v.Attrs.Bool("softmax"),
		MinSum: v.Attrs.Float("min_sum"), Scale: v.Attrs.Float("scale"),
	}, nil
}

func topKWeightsKernel(c *graph.Call, lo, hi int) {
	w := c.Param.(*TopKWeightsParams)
	n := c.Out.Dims[1]
	for t := lo; t < hi; t++ {
		p, ids, y := c.In[0].Row(t), c.In[1].I32[t*c.In[1].Stride:][:n], c.Out.Row(t)
		sum := float32(0)
		for u, e := range ids {
			y[u] = p[e]
			sum += y[u]
		}
		switch {
		case w.SoftmaxOverChosen:
			softmax(y, y)
		case w.Normalize:
			for u := range y {
				y[u] /= max(sum, w.MinSum)
			}
		}
		for u := range y {
			y[u] *= w.Scale
		}
	}
}

// rowsOfToken returns how many vectors of x a token has: 1 of [T,K], U of
// [T,U,K].
func rowsOfToken(x *graph.Tensor) int {
	if len(x.Dims) == 3 {
		return x.Dims[1]
	}
	return 1
}

func expertMatMulKernel(c *graph.Call, lo, hi int) {
	x, w := vectorsOf(c.In[0]), weightsOf(c.In[1])
	perToken, perExpert := rowsOfToken(c.In[0]), c.In[1].Dims[1]
	ids := c.In[2]
	total, used, columns := c.Out.Dims[0], c.Out.Dims[1], c.Out.Dims[2]
	for n := lo; n < hi; n++ {
		for t := range total {
			for u := range used {
				e := int(ids.I32[t*ids.Stride+u])
				xr := t*perToken + u%perToken
				y := c.Out.F32[t*c.Out.Stride+u*columns+n:]
				dotRows(y[:1], &w, &x, e*perExpert+n, xr)
			}
		}
	}
}

// expertMatMulCost counts the products of the chosen experts, and of the
// weights those of as many experts as can be chosen.
func expertMatMulCost(v *graph.Value, b graph.Dims) graph.Cost {
	x, w, ids := v.Args[0].Type, v.Args[1].Type, v.Args[2].Type
	experts := min(w.Shape[0].Size, ids.Shape.Elems(b))
	return graph.Cost{
		MACs:  v.Type.Shape.Elems(b) * x.Shape.Last(),
		Bytes: x.Bytes(b) + ids.Bytes(b) + v.Type.Bytes(b) + experts*w.Shape[1].Size*w.DType.RowBytes(w.Shape.Last()),
	}
}

func expertAddKernel(c *graph.Call, lo, hi int) {
	bias, ids := c.In[1], c.In[2]
	used, n := c.Out.Dims[1], c.Out.Dims[2]
	for t := lo; t < hi; t++ {
		x, y := c.In[0].Row(t), c.Out.Row(t)
		for u := range used {
			e := int(ids.I32[t*ids.Stride+u])
			for i, z := range bias.Row(e) {
				y[u*n+i] = x[u*n+i] + z
			}
		}
	}
}

func expertSumKernel(c *graph.Call, lo, hi int) {
	used, n := c.In[0].Dims[1], c.In[0].Dims[2]
	for t := lo; t < hi; t++ {
		x, w, y := c.In[0].Row(t), c.In[1].Row(t), c.Out.Row(t)
		for i := range y {
			sum := float32(0)
			for u := range used {
				sum += float32(w[u] * x[u*n+i])
			}
			y[i] = sum
		}
	}
}

func gatherScaleKernel(c *graph.Call, lo, hi int) {
	ids := c.In[2]
	for t := lo; t < hi; t++ {
		x, y := c.In[0].Row(t), c.Out.Row(t)
		for u := range y {
			y[u] = x[u] * c.In[1].F32[ids.I32[t*ids.Stride+u]]
		}
	}
}
