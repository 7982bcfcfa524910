package main

import (
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// interleave generates what f generates for 0 to n-1, an instruction of each in
// turn: a processor looks for independent work among so many instructions, and
// one step of a row can be longer than that. Memory at w is still read in its
// order, before all else, so nothing that reads it may depend on anything that does
// not; and what is prefetched is spread evenly, in its order. Memory is slower in
// any other.
func interleave(n int, w reg.GPVirtual, f func(i int)) {
	file, err := c.Result()
	if err != nil {
		panic(err)
	}
	functions := file.Functions()
	fn := functions[len(functions)-1]
	before := fn.Nodes
	var loads, prefetches []ir.Node
	parts := make([][]ir.Node, n)
	for i := range parts {
		fn.Nodes = nil
		f(i)
		for _, node := range fn.Nodes {
			in, ok := node.(*ir.Instruction)
			switch {
			case !ok:
				panic("interleave: only instructions can be interleaved")
			case strings.HasPrefix(in.Opcode, "PREFETCH"):
				prefetches = append(prefetches, node)
			case reads(in, w):
				loads = append(loads, node)
			default:
				parts[i] = append(parts[i], node)
			}
		}
	}
	body := loads
	for at := 0; slices.ContainsFunc(parts, func(p []ir.Node) bool { return at < len(p) }); at++ {
		for _, p := range parts {
			if at < len(p) {
				body = append(body, p[at])
			}
		}
	}
	fn.Nodes = before
	asked := 0
	for i, node := range body {
		for ; asked*len(body) <= i*len(prefetches) && asked < len(prefetches); asked++ {
			fn.Nodes = append(fn.Nodes, prefetches[asked])
		}
		fn.Nodes = append(fn.Nodes, node)
	}
}

// reads reports whether an instruction has an operand in memory at w.
func reads(in *ir.Instruction, w reg.GPVirtual) bool {
	return slices.ContainsFunc(in.Operands, func(op operand.Op) bool {
		m, ok := op.(operand.Mem)
		return ok && m.Base == w
	})
}
