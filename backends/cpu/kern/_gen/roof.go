package main

import (
	"go/token"
	"go/types"

	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// genRoof generates the loops that show what the machine can do at best.
func genRoof() {
	roof("peakAVX512", "peakAVX512 does 16 independent byte products of 64 in each of n rounds.", 1, func(n reg.GPVirtual) {
		x := c.ZMM()
		zero(x)
		var acc [16]reg.VecVirtual
		for i := range acc {
			acc[i] = c.ZMM()
			zero(acc[i])
		}
		c.Label("round")
		for i := range acc {
			c.VPDPBUSD(x, x, acc[i])
		}
		c.DECQ(n)
		c.JNZ(operand.LabelRef("round"))
	})
	c.Function("readAVX512")
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc("readAVX512 loads n times 512 bytes.")
	two("unsafe.Pointer")
	p, n := c.Load(c.Param("p"), c.GP64()).(reg.GPVirtual), c.Load(c.Param("n"), c.GP64()).(reg.GPVirtual)
	var acc [8]reg.VecVirtual
	for i := range acc {
		acc[i] = c.ZMM()
		zero(acc[i])
	}
	// From the start of the first line: whole lines need one load each.
	c.ANDQ(operand.I8(-64), p)
	// The second-level cache: a Zen 4 reads a fifth more than with the first.
	c.Label("round")
	for i := range acc {
		c.PREFETCHT1(at(p, 8192+64*i))
		c.VPORD(at(p, 64*i), acc[i], acc[i])
	}
	c.ADDQ(operand.I32(512), p)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("round"))
	c.VZEROUPPER()
	c.RET()
	genPrefetch()
}

// genPrefetch generates the loop that brings weights near while a worker waits.
func genPrefetch() {
	c.Function("prefetchLines")
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc("prefetchLines asks for n times 512 bytes in the second-level cache. It reads", "nothing: any address will do.")
	two("unsafe.Pointer")
	p, n := c.Load(c.Param("p"), c.GP64()).(reg.GPVirtual), c.Load(c.Param("n"), c.GP64()).(reg.GPVirtual)
	c.Label("round")
	for i := range 8 {
		c.PREFETCHT1(at(p, 64*i))
	}
	c.ADDQ(operand.I32(512), p)
	c.DECQ(n)
	c.JNZ(operand.LabelRef("round"))
	c.RET()
}

func roof(name, doc string, _ int, body func(n reg.GPVirtual)) {
	c.Function(name)
	c.Attributes(noSplit)
	c.Pragma("noescape")
	c.Doc(doc)
	c.SignatureExpr("func(n int)")
	body(c.Load(c.Param("n"), c.GP64()).(reg.GPVirtual))
	c.VZEROUPPER()
	c.RET()
}

// two gives the current function a pointer p and a count n.
func two(string) {
	pkg := types.NewPackage("graphrun/backends/cpu/kern", "kern")
	params := types.NewTuple(types.NewParam(token.NoPos, pkg, "p", types.NewPointer(types.Typ[types.Byte])),
		types.NewParam(token.NoPos, pkg, "n", types.Typ[types.Int]))
	c.Signature(gotypes.NewSignature(pkg, types.NewSignatureType(nil, nil, nil, params, nil, false)))
}
