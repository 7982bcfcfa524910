package ops

import "graphrun/graph"

func matmulKernel(c *graph.Call, lo, hi int)                   {}
func gatedMatMulKernel(c *graph.Call, lo, hi int)              {}
func topKKernel(c *graph.Call, lo, hi int)                     {}
func prepareTopKWeights(v *graph.Value) (any, error)           { return nil, nil }
func topKWeightsKernel(c *graph.Call, lo, hi int)              {}
func expertMatMulKernel(c *graph.Call, lo, hi int)             {}
func expertMatMulCost(v *graph.Value, b graph.Dims) graph.Cost { return graph.Cost{} }
func expertAddKernel(c *graph.Call, lo, hi int)                {}
func expertSumKernel(c *graph.Call, lo, hi int)                {}
func gatherScaleKernel(c *graph.Call, lo, hi int)              {}
func attentionKernel(c *graph.Call, lo, hi int)                {}
