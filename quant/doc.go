// Package quant encodes f32 weights into the types of model files: floats of 16
// bits and the block formats. Decoding is DequantRow of package ops, which also
// documents how each format lies in memory.
//
//	row := make([]byte, graph.Q8_0.RowBytes(len(weights)))
//	err := quant.Row(row, weights, graph.Q8_0, nil)
//
// A format stores groups of numbers as small integers with a scale, and some
// with a minimum. Encoding chooses scale and minimum so that the sum of squared
// errors is small, with a weight for each column if the caller has one: how
// large the activations are that the column is multiplied with, from an
// importance matrix. For given scales the integers are the nearest ones; for
// given integers the best scale is a least squares solution; the searches
// alternate between the two from several starting points.
//
// The same row gives the same bytes on every machine: each product is rounded to
// f32 before it is added.
package quant
