package graph

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected graphs in testdata")

// testRules is the rewrite table of testdata/rewrite*.txtar.
var testRules = []Rule{
	{Name: "neg-neg", Doc: "-(-x) = x", Match: Pat("testneg", Pat("testneg", Any("x"))),
		Make: func(m *Match) *Value { return m.Get("x") }},
	{Name: "add-neg", Doc: "a + (-b) = a - b", Match: Pat("testadd", Any("a"), Pat("testneg", Any("b")).Once()),
		If:   func(m *Match) bool { return m.Get("a").Type.Equal(m.Get("b").Type) },
		Make: func(m *Match) *Value { return m.New(opTestSub, nil, m.Get("a"), m.Get("b")) }},
	{Name: "scale-scale", Doc: "s(s(x,a),b) = s(x,ab)", Match: Pat("testscale", Pat("testscale", Any("x")).As("inner").Once()),
		If: func(m *Match) bool {
			return m.Root.Attrs.Float("bias") == 0 && m.Get("inner").Attrs.Float("bias") == 0
		},
		Make: func(m *Match) *Value {
			by := m.Root.Attrs.Float("by") * m.Get("inner").Attrs.Float("by")
			return m.New(opTestScale, MakeAttrs("by", by), m.Get("x"))
		}},
	// mul-self needs a helper value: x·x = (x·1)·x, once, seen by its attribute.
	{Name: "mul-self", Match: Pat("testmul", Any("x"), Any("x")),
		If: func(m *Match) bool { return m.Get("x").Op != opTestScale },
		Make: func(m *Match) *Value {
			x := m.Get("x")
			return m.New(opTestMul, nil, m.New(opTestScale, MakeAttrs("by", float32(1)), x), x)
		}},
}

// runPass runs the pass a test file names in its comment: "pass: name".
func runPass(g *Graph, name string) error {
	name, arg, _ := strings.Cut(name, " ")
	switch name {
	case "constfold":
		return ConstFold(g)
	case "cse":
		return CSE(g)
	case "dce":
		return DCE(g)
	case "rewrite":
		return Rules(testRules...)(g)
	case "schedule":
		return Schedule(g)
	case "memplan":
		n, _ := strconv.Atoi(strings.TrimPrefix(arg, "T="))
		g.Bound = Dims{"T": n}
		return MemPlan(g)
	case "verify":
		return Verify(g)
	case "print":
		return nil
	}
	return fmt.Errorf("no pass %q", name)
}

// TestPasses runs testdata/*.txtar. The comment of a file has lines "pass: NAME"
// that apply to every case; a case is a file NAME.in and the expected NAME.out,
// a graph or the line "error: ...".
func TestPasses(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var passes []string
			for l := range strings.Lines(string(a.Comment)) {
				if p, ok := strings.CutPrefix(strings.TrimSpace(l), "pass: "); ok {
					passes = append(passes, p)
				}
			}
			want := map[string][]byte{}
			for _, f := range a.Files {
				want[f.Name] = f.Data
			}
			var fresh []txtar.File
			for _, f := range a.Files {
				name, ok := strings.CutSuffix(f.Name, ".in")
				if !ok {
					continue
				}
				got := transform(string(f.Data), passes)
				fresh = append(fresh, f, txtar.File{Name: name + ".out", Data: []byte(got)})
				if !*update && got != string(want[name+".out"]) {
					t.Errorf("%s: got\n%swant\n%s", name, got, want[name+".out"])
				}
			}
			if *update {
				a.Files = fresh
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// transform returns the graph after the passes, or the error.
func transform(text string, passes []string) string {
	g, err := Parse(text)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	for _, p := range passes {
		if err := runPass(g, p); err != nil {
			return "error: " + err.Error() + "\n"
		}
	}
	if err := Verify(g); err != nil {
		return "error: after: " + err.Error() + "\n"
	}
	return g.String()
}
