// The command _gen writes the assembly kernels of package kern. Run it in this
// folder:
//
//	go run . -dir ..
//
// Each group of kernels becomes <group>_amd64.s and <group>_stubs_amd64.go.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"log"
	"os"
	"path/filepath"
	"sort"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

const constraint = "amd64,gc,!noasm"

// groups lists the output files with the functions that generate them.
var groups = map[string]func(){
	"gemm":    genGEMM,
	"avx2":    genAVX2,
	"dequant": genDequant,
	"rows":    genRows,
	"rowsk":   genRowsK,
	"quad":    genQuad,
	"gemv":    genGEMV,
	"unpack":  genUnpack,
	"roof":    genRoof,
	"quant":   genQuant,
	"attn":    genAttn,
	"vec":     genVec,
}

// c is the context all generators write to.
var c *build.Context

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "..", "folder to write to")
	flag.Parse()
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := generate(*dir, name); err != nil {
			log.Fatalf("_gen: %s: %v", name, err)
		}
	}
}

// generate writes one group. Nothing is written if anything fails, so that a
// faulty generator cannot leave the package without its stubs.
func generate(dir, name string) error {
	c = build.NewContext()
	tables = map[string]bool{}
	c.ConstraintExpr(constraint)
	groups[name]()
	file, err := c.Result()
	if err != nil {
		return err
	}
	// One function at a time, so that an error can name it.
	for _, section := range file.Sections {
		fn, ok := section.(*ir.Function)
		if !ok {
			continue
		}
		if err := pass.Compile.Execute(&ir.File{Sections: []ir.Section{fn}}); err != nil {
			return fmt.Errorf("%s: %w", fn.Name, err)
		}
	}
	if err := pass.IncludeTextFlagHeader(file); err != nil {
		return err
	}
	cfg := printer.Config{Pkg: "kern", Name: "_gen"}
	asm, err := printer.NewGoAsm(cfg).Print(file)
	if err != nil {
		return err
	}
	stubs, err := printer.NewStubs(cfg).Print(file)
	if err != nil {
		return err
	}
	if stubs, err = format.Source(stubs); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+"_amd64.s"), bytes.TrimLeft(asm, "\n"), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+"_stubs_amd64.go"), stubs, 0o644); err != nil {
		return err
	}
	dispatch := map[string]func() []byte{"gemv": gemvDispatch, "rows": rowDispatch, "quad": quadDispatch}[name]
	if dispatch == nil {
		return nil
	}
	source, err := format.Source(dispatch())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+"_dispatch_amd64.go"), source, 0o644)
}
