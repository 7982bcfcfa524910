// The command neon writes the arm64 assembly of package kern. Run it in _gen:
//
//	go run ./neon -dir ..
//
// Go's assembler does not know all instructions the kernels need (SDOT, SMMLA,
// conversions by vector), so the generator writes GNU syntax, lets the GNU
// assembler (Debian: binutils-aarch64-linux-gnu) encode it, and prints each
// instruction as a WORD with its text beside it. Each group of kernels becomes
// <group>_arm64.s and <group>_stubs_arm64.go.
package main

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"go/format"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const constraint = "arm64 && gc && !noasm"

// assembler is the GNU assembler for arm64.
const assembler, objcopy = "aarch64-linux-gnu-as", "aarch64-linux-gnu-objcopy"

var groups = []struct {
	name string
	gen  func(g *group)
}{
	{"decode", genDecode},
	{"rows", genRows},
	{"dot", genDot},
	{"panel", genPanel},
	{"float", genFloat},
	{"quant", genQuant},
	{"vec", genVec},
	{"attn", genAttn},
}

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "..", "folder to write to")
	flag.Parse()
	for _, g := range groups {
		out := &group{name: g.name}
		g.gen(out)
		if err := out.write(*dir); err != nil {
			log.Fatalf("_gen/neon: %s: %v", g.name, err)
		}
	}
	if err := writeDispatch(*dir); err != nil {
		log.Fatalf("_gen/neon: dispatch: %v", err)
	}
}

// group is a file of kernels with their constants.
type group struct {
	name   string
	funcs  []*function
	consts []byte
	at     map[string]int
}

// function is a kernel: lines of GNU syntax, labels end in a colon. On entry x0
// holds its argument and x1 the address of the constants. Registers x18 and x27
// to x30 are not its own.
type function struct {
	group  *group
	name   string
	args   string // name of the struct the argument points to
	doc    []string
	lines  []string
	labels int
	symbol string // a table of the package whose address goes to x26
}

func (g *group) function(name, args string, doc ...string) *function {
	f := &function{group: g, name: name, args: args, doc: doc}
	g.funcs = append(g.funcs, f)
	return f
}

// o adds an instruction.
func (f *function) o(text string, a ...any) {
	f.lines = append(f.lines, fmt.Sprintf(text, a...))
}

// label places a label.
func (f *function) label(name string) { f.lines = append(f.lines, name+":") }

// get loads a field of the argument into a register.
func (f *function) get(x, off int) { f.o("ldr x%d, [x0, #%d]", x, off) }

// constant returns the offset of 16 bytes among the constants of the group.
func (g *group) constant(b ...byte) int {
	if len(b) != 16 {
		panic("a constant has 16 bytes")
	}
	if g.at == nil {
		g.at = map[string]int{}
	}
	off, ok := g.at[string(b)]
	if !ok {
		off = len(g.consts)
		g.at[string(b)] = off
		g.consts = append(g.consts, b...)
	}
	return off
}

// loadConst loads 16 bytes of constants.
func (f *function) loadConst(v int, b ...byte) {
	f.o("ldr q%d, [x1, #%d]", v, f.group.constant(b...))
}

// loadWord loads a constant into all four words of a register.
func (f *function) loadWord(v int, w uint32) {
	var b []byte
	for range 4 {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	f.loadConst(v, b...)
}

// ldq loads 16 bytes at any offset; x17 is overwritten where it must be.
func (f *function) ldq(v, x, off int) {
	switch {
	case off >= 0 && off%16 == 0 && off < 65536:
		f.o("ldr q%d, [x%d, #%d]", v, x, off)
	case off >= -256 && off < 256:
		f.o("ldur q%d, [x%d, #%d]", v, x, off)
	default:
		f.o("add x17, x%d, #%d", x, off)
		f.o("ldr q%d, [x17]", v)
	}
}

// encode returns the instruction words of all functions.
func (g *group) encode() ([]uint32, error) {
	dir, err := os.MkdirTemp("", "neon")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var src bytes.Buffer
	fmt.Fprintln(&src, ".arch armv8.6-a+i8mm+dotprod+fp16")
	for i, f := range g.funcs {
		for _, l := range f.lines {
			fmt.Fprintln(&src, localize(l, i))
		}
		fmt.Fprintln(&src, "ret")
	}
	s, o, b := filepath.Join(dir, "k.s"), filepath.Join(dir, "k.o"), filepath.Join(dir, "k.bin")
	if err := os.WriteFile(s, src.Bytes(), 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command(assembler, "-o", o, s).CombinedOutput(); err != nil {
		lines := strings.Split(src.String(), "\n")
		text := string(out)
		if len(text) > 3000 {
			text = text[:3000]
		}
		for _, m := range strings.Split(text, "\n") {
			var n int
			if p := strings.Split(m, ":"); len(p) > 2 {
				fmt.Sscan(p[1], &n)
			}
			if n > 0 && n <= len(lines) {
				text += fmt.Sprintf("\n%d: %s", n, lines[n-1])
			}
		}
		return nil, fmt.Errorf("%s: %w\n%s", assembler, err, text)
	}
	if out, err := exec.Command(objcopy, "-O", "binary", "-j", ".text", o, b).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", objcopy, err, out)
	}
	code, err := os.ReadFile(b)
	if err != nil {
		return nil, err
	}
	words := make([]uint32, len(code)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(code[4*i:])
	}
	return words, nil
}

// localize makes the labels of a function its own: they are written L_name.
func localize(line string, i int) string {
	return strings.ReplaceAll(line, "L_", fmt.Sprintf(".L%d_", i))
}

func (g *group) write(dir string) error {
	words, err := g.encode()
	if err != nil {
		return err
	}
	consts := g.name + "consts<>"
	var asm, stubs bytes.Buffer
	fmt.Fprintf(&asm, "// Code generated by _gen/neon. DO NOT EDIT.\n\n//go:build %s\n\n#include \"textflag.h\"\n\n", constraint)
	fmt.Fprintf(&stubs, "// Code generated by _gen/neon. DO NOT EDIT.\n\n//go:build %s\n\npackage kern\n", constraint)
	for i := 0; i < len(g.consts); i += 8 {
		fmt.Fprintf(&asm, "DATA %s+%d(SB)/8, $%#016x\n", consts, i, binary.LittleEndian.Uint64(g.consts[i:]))
	}
	if len(g.consts) > 0 {
		fmt.Fprintf(&asm, "GLOBL %s(SB), RODATA|NOPTR, $%d\n", consts, len(g.consts))
	}
	at := 0
	for _, f := range g.funcs {
		fmt.Fprintf(&asm, "\n// func %s(a *%s)\nTEXT ·%s(SB), NOSPLIT, $0-8\n\tMOVD a+0(FP), R0\n", f.name, f.args, f.name)
		if len(g.consts) > 0 {
			fmt.Fprintf(&asm, "\tMOVD $%s(SB), R1\n", consts)
		}
		if f.symbol != "" {
			fmt.Fprintf(&asm, "\tMOVD $·%s(SB), R26\n", f.symbol)
		}
		for _, l := range f.lines {
			if strings.HasSuffix(l, ":") {
				fmt.Fprintf(&asm, "\n\t// %s\n", strings.TrimPrefix(l, "L_"))
				continue
			}
			fmt.Fprintf(&asm, "\tWORD $0x%08x // %s\n", words[at], strings.ReplaceAll(l, "L_", ""))
			at++
		}
		fmt.Fprintf(&asm, "\tRET\n")
		if words[at] != 0xd65f03c0 {
			return fmt.Errorf("%s: instructions and words do not match", f.name)
		}
		at++
		fmt.Fprintf(&stubs, "\n// %s %s\n", f.name, strings.Join(f.doc, "\n// "))
		fmt.Fprintf(&stubs, "//\n//go:noescape\nfunc %s(a *%s)\n", f.name, f.args)
	}
	source, err := format.Source(stubs.Bytes())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, g.name+"_arm64.s"), asm.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, g.name+"_stubs_arm64.go"), source, 0o644)
}
