package main

import (
	"encoding/binary"
	"go/token"
	"go/types"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tables remembers which constant tables the current file has.
var tables map[string]bool

// table returns the address of a constant table, defining it on first use.
func table(name string, data []byte) operand.Mem {
	ref := operand.NewDataAddr(operand.Symbol{Name: name, Static: true}, 0)
	if !tables[name] {
		tables[name] = true
		for len(data)%8 != 0 {
			data = append(data, 0)
		}
		c.StaticGlobal(name)
		c.DataAttributes(attr.RODATA | attr.NOPTR)
		for i := 0; i < len(data); i += 8 {
			c.AddDatum(i, operand.U64(binary.LittleEndian.Uint64(data[i:])))
		}
	}
	return ref
}

// bytesOf returns n bytes computed by f.
func bytesOf(n int, f func(i int) byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = f(i)
	}
	return b
}

// wordsOf returns n 16-bit words computed by f.
func wordsOf(n int, f func(i int) uint16) []byte {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint16(b, f(i))
	}
	return b
}

// dwordsOf returns n 32-bit words computed by f.
func dwordsOf(n int, f func(i int) uint32) []byte {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, f(i))
	}
	return b
}

// loadTable returns a register holding a 64-byte table.
func loadTable(name string, data []byte) reg.VecVirtual {
	z := c.ZMM()
	c.VMOVDQU32(table(name, data), z)
	return z
}

// splat returns a register with a 32-bit constant in every lane.
func splat(name string, v uint32) reg.VecVirtual {
	z := c.ZMM()
	c.VPBROADCASTD(word(name, v), z)
	return z
}

// load64 loads 64 bytes of weights as two halves. Loads of 64 bytes that cross
// a cache line hold back what follows until the data is there, and so undo the
// prefetching: streaming from memory, two halves are up to twice as fast.
func load64(base reg.Register, disp int, z reg.VecVirtual) {
	c.VMOVDQU32(at(base, disp), z.AsY())
	c.VINSERTI64X4(operand.U8(1), at(base, disp+32), z, z)
}

// word returns the address of a 32-bit constant, for operands that broadcast.
func word(name string, v uint32) operand.Mem {
	return table(name, dwordsOf(1, func(int) uint32 { return v }))
}

func at(base reg.Register, disp int) operand.Mem { return operand.Mem{Base: base, Disp: disp} }

// tokens addresses the same place of up to twelve tokens that lie a constant
// number of bytes apart, with a moving pointer per three tokens and the stride.
type tokens struct {
	base   [4]reg.GPVirtual
	stride reg.GPVirtual
}

// tokensAt makes the pointers for n tokens from the first one's.
func tokensAt(first, stride reg.GPVirtual, n int) tokens {
	t := tokens{stride: stride}
	t.base[0] = c.GP64()
	c.MOVQ(first, t.base[0])
	for i := 1; 3*i < n; i++ {
		t.base[i] = c.GP64()
		c.LEAQ(operand.Mem{Base: t.base[i-1], Index: stride, Scale: 2}, t.base[i])
		c.ADDQ(stride, t.base[i])
	}
	return t
}

func (t tokens) at(i, disp int) operand.Mem {
	m := operand.Mem{Base: t.base[i/3], Disp: disp}
	if i%3 > 0 {
		m.Index, m.Scale = t.stride, uint8(i%3)
	}
	return m
}

func (t tokens) advance(n int) {
	for _, b := range t.base {
		if b != nil {
			c.ADDQ(operand.I32(n), b)
		}
	}
}

// sumTo adds the 16 lanes of z into lane 0 of an XMM register, in a fixed
// order.
func sumTo(z, tmp reg.VecVirtual) reg.Register {
	c.VEXTRACTF64X4(operand.U8(1), z, tmp.AsY())
	c.VADDPS(tmp.AsY(), z.AsY(), z.AsY())
	c.VEXTRACTF32X4(operand.U8(1), z.AsY(), tmp.AsX())
	c.VADDPS(tmp.AsX(), z.AsX(), z.AsX())
	c.VPERMILPS(operand.U8(0x0e), z.AsX(), tmp.AsX())
	c.VADDPS(tmp.AsX(), z.AsX(), z.AsX())
	c.VPERMILPS(operand.U8(0x01), z.AsX(), tmp.AsX())
	c.VADDPS(tmp.AsX(), z.AsX(), z.AsX())
	return z.AsX()
}

const noSplit = attr.NOSPLIT

// signature gives the current function one pointer argument a to a struct
// that the package declares by hand.
func signature(argsType string) {
	pkg := types.NewPackage("graphrun/backends/cpu/kern", "kern")
	named := types.NewNamed(types.NewTypeName(token.NoPos, pkg, argsType, nil), types.NewStruct(nil, nil), nil)
	params := types.NewTuple(types.NewParam(token.NoPos, pkg, "a", types.NewPointer(named)))
	c.Signature(gotypes.NewSignature(pkg, types.NewSignatureType(nil, nil, nil, params, nil, false)))
}

// lookup reads 16 dwords of a table by index. The gather instruction takes
// about 100 cycles on Zen, single loads a tenth of that.
type lookup struct {
	local operand.Mem
	base  reg.GPVirtual
	part  [4]reg.VecVirtual
}

// newLookup prepares lookups in the table symbol. The registers are allocated
// once, because inserting makes them live from the start of the function.
func newLookup(symbol string) *lookup {
	l := &lookup{local: c.AllocLocal(64), base: c.GP64()}
	c.LEAQ(operand.NewDataAddr(operand.Symbol{Name: symbol}, 0), l.base)
	l.part[0] = c.ZMM()
	for i := 1; i < 4; i++ {
		l.part[i] = c.XMM()
	}
	return l
}

// of returns the entries in a register that the next call overwrites.
func (l *lookup) of(index reg.VecVirtual) reg.VecVirtual {
	c.VMOVDQU32(index, l.local)
	for p := range 4 {
		x := l.part[p].AsX()
		for i := range 4 {
			r := c.GP32()
			c.MOVL(l.local.Offset(16*p+4*i), r)
			entry := operand.Mem{Base: l.base, Index: r.As64(), Scale: 4}
			if i == 0 {
				c.VMOVD(entry, x)
			} else {
				c.VPINSRD(operand.U8(i), entry, x, x)
			}
		}
	}
	for p := 1; p < 4; p++ {
		c.VINSERTI32X4(operand.U8(p), l.part[p], l.part[0], l.part[0])
	}
	return l.part[0]
}
