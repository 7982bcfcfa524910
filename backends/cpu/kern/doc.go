// Package kern holds the matrix products of the CPU backend: f32 activations
// or activations quantized to 8 bits, times weights in the block formats of
// GGUF files exactly as they lie in the file.
//
//	y[t,n] = Σ_k W[n,k]·x[t,k]
//
// Every product exists in plain Go (the specification, and the fallback) and,
// where the processor allows it, in generated assembly. Three algorithms share
// one entry point, [Mul]:
//
//   - few tokens: one weight row at a time, decoded in registers and multiplied
//     with all tokens, reading the weights once in file order;
//   - many tokens: 32 weight rows are unpacked into a panel that stays in the
//     second-level cache, and a register-tiled kernel multiplies it with six
//     tokens at a time;
//   - plain Go: block by block.
//
// Letters: n is a weight row, k the summed dimension, t a token, b a block of
// 32 or 256 elements along k.
//
// An output element is computed by the same instructions in the same order
// whatever row range, worker count or neighbouring token it is computed with;
// only the choice between the first two algorithms depends on the number of
// tokens. Nothing here allocates in steady state or starts a goroutine.
package kern
