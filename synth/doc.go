// Package synth writes model files with the exact shapes of published models
// and random weights, so that speed can be measured, and compared between
// programs, without a download.
//
// A file has everything its architecture asks for: keys, tensors of the types
// that published files give them, and a vocabulary of the right size and family
// with made-up pieces. Its weights are random blocks of quantized numbers whose
// scales are chosen so that every product keeps activations near 1; what such a
// model writes is noise.
//
//	err := synth.Write(ctx, "small.gguf", shape, synth.Options{Type: "q4_k_m"})
//
// The same shape, type and seed give the same bytes, for any number of workers.
package synth
