// Package ops is the vocabulary of graphrun: every operation a model graph is
// made of, one family per file.
//
// An operation has a constructor that adds it to a graph (MatMul, RMSNorm,
// Attention …), an inference rule that says which operand does not fit, and a
// kernel in plain Go. The plain kernel is the specification: its loop is the
// formula, backends may compute the same thing faster, and package opstest
// checks that they do.
//
// # Units
//
// A kernel computes a range of units, pieces of work that do not depend on each
// other. As a rule a unit is a row of the result, i.e. a token. The units of the
// matrix products are columns of the result, so that each weight row is read
// once for all tokens; the units of attention are pairs of a token and a kv
// head. However the units are split among calls, the result has the same bits.
//
// # Storage
//
// A value of type f32[T,...] is a graph.Tensor with F32 set, i32 with I32 set,
// everything else Raw. Rows of results are contiguous, rows of operands may be
// Stride apart. Weights are contiguous. cache.go has the layout of caches and
// quantize.go that of quantized activations; the block formats of weights are
// in one file each and DequantRow reads them all.
package ops
