// Package graphrun is the root of a dataflow-graph engine that runs language
// models on the CPU. It holds the embedded model; the work is in the packages
// below it:
//
//	graph     the graph, its text form, passes and drawings
//	ops       the operations, with plain-Go kernels
//	archs     architectures: a record and a Build function each
//	loaders   model files and tokenizers
//	backends  what runs a compiled graph: ref and cpu
//	engine    sessions, sampling, generation
//
// The command is in cmd/graphrun.
package graphrun

import _ "embed"

// StoriesName stands for the path of the embedded model in messages.
const StoriesName = "embedded:stories.gguf"

// Stories is the embedded model: a small Llama that writes children's stories.
// testdata/gen/stories says how it was made.
//
//go:embed testdata/stories.gguf
var Stories []byte
