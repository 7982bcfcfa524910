package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exponential computes exp for vectors.
type exponential struct {
	isa
	log2e, ln2hi, ln2lo, one, bias operand.Op
	least                          operand.Op
	c                              [6]operand.Op
	ok                             reg.Register // mask or vector of the lanes not flushed to 0
}

// newExponential loads the constants: ln 2 in two parts and the polynomial of
// Cephes' expf, which is good to 1 ulp within ±ln 2/2.
func newExponential(v isa) *exponential {
	e := &exponential{isa: v,
		log2e: v.num("log2e", math.Log2E), one: v.num("one", 1),
		ln2hi: v.num("ln2hi", 0.693359375), ln2lo: v.num("ln2lo", -2.12194440e-4), least: v.num("expleast", expLeast),
	}
	for i, k := range []float64{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		e.c[i] = v.num(fmt.Sprintf("exp%d", i), k)
	}
	if v.wide() {
		e.ok = c.K()
	} else {
		e.ok = c.YMM()
		e.bias = v.bits("expbias", 127<<23)
	}
	return e
}

// of replaces x by exp(x): 0 below -87.33, where it is no normal number, +Inf
// above 88.7, but NaN for +Inf itself. NaN stays NaN.
func (e *exponential) of(x reg.VecVirtual) {
	c.VCMPPS(operand.U8(notLess), e.least, x, e.ok)
	e.masked(x)
}

// masked is of with the lanes to compute in e.ok.
func (e *exponential) masked(x reg.VecVirtual) {
	n, p := e.reg(), e.reg()
	e.reduce(x, n)
	e.poly(x, p)
	c.VFMADD213PS(e.one, x, p)
	c.VFMADD213PS(e.one, x, p)
	if e.wide() {
		c.VSCALEFPS_Z(n, p, e.ok, x)
		return
	}
	e.times2(n, p, x)
	c.VMOVAPS(p, x)
	c.VANDPS(e.ok, x, x)
}

// times2 multiplies p by 2^n in two steps, so that the powers themselves are
// normal numbers. t is overwritten.
func (e *exponential) times2(n, p, t reg.VecVirtual) {
	c.VCVTPS2DQ(n, n)
	c.VPSRAD(operand.U8(1), n, t)
	c.VPSUBD(t, n, n)
	for _, k := range []reg.VecVirtual{t, n} {
		c.VPSLLD(operand.U8(23), k, k)
		c.VPADDD(e.bias, k, k)
		c.VMULPS(k, p, p)
	}
}

// reduce gives x = n·ln 2 + r, r in place of x.
func (e *exponential) reduce(x, n reg.VecVirtual) {
	c.VMULPS(e.log2e, x, n)
	if e.wide() {
		c.VRNDSCALEPS(operand.U8(8), n, n)
	} else {
		c.VROUNDPS(operand.U8(8), n, n)
	}
	c.VFNMADD231PS(e.ln2hi, n, x)
	c.VFNMADD231PS(e.ln2lo, n, x)
}

// poly gives p with exp(r) = 1 + r + r²·p.
func (e *exponential) poly(r, p reg.VecVirtual) {
	c.VMOVUPS(e.c[0], p)
	for _, k := range e.c[1:] {
		c.VFMADD213PS(k, r, p)
	}
}

// tanh replaces x by tanh x: with y = 2|x| and exp(y)-1 = 2^n·q + (2^n-1),
// q = exp(r)-1, no digits are lost near 0.
func (e *exponential) tanh(x reg.VecVirtual, t *tanhConsts) {
	s, n, p, w := e.reg(), e.reg(), e.reg(), e.reg()
	c.VANDPS(t.sign, x, s)
	c.VANDPS(t.rest, x, x)
	c.VADDPS(x, x, x)
	e.min(t.top, x, x)
	e.reduce(x, n)
	e.poly(x, p)
	c.VFMADD213PS(e.one, x, p)
	c.VMULPS(x, p, p) // q
	if e.wide() {
		c.VSCALEFPS(n, e.one.(reg.VecVirtual), n)
	} else { // n is below 60
		c.VCVTPS2DQ(n, n)
		c.VPSLLD(operand.U8(23), n, n)
		c.VPADDD(e.bias, n, n)
	}
	c.VSUBPS(e.one, n, w)
	c.VFMADD231PS(p, n, w) // exp(y)-1
	c.VADDPS(t.two, w, p)
	c.VDIVPS(p, w, x)
	c.VORPS(s, x, x)
}

type tanhConsts struct{ sign, rest, two, top operand.Op }

func newTanh(v isa) *tanhConsts {
	return &tanhConsts{v.bits("sign", 1<<31), v.bits("abs", 1<<31-1), v.num("two", 2), v.num("tanhtop", 40)}
}
