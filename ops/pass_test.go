package ops_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"graphrun/graph"
	"graphrun/ops"
)

var update = flag.Bool("update", false, "rewrite expected texts")

// TestPasses runs each pass on the graphs name.in of its text file, verifies the
// results and compares them, cleaned by dce, with name.want.
func TestPasses(t *testing.T) {
	passes := map[string]func(*graph.Graph) error{
		"algebra":             ops.Algebra,
		"rows":                ops.Rows,
		"fuse-gated":          ops.FuseGated,
		"fuse-qkv":            ops.FuseQKV,
		"fuse-residual":       ops.FuseResidual,
		"fuse-softcap":        ops.FuseSoftcap,
		"fuse-norm-residual":  ops.FuseNormResidual,
		"fuse-rope":           ops.FuseRope,
		"quantize":            ops.QuantizeActivations,
		"fuse-norm-quantize":  ops.FuseNormQuantize,
		"fuse-gated-quantize": ops.FuseGatedQuantize,
	}
	for name, pass := range passes {
		path := filepath.Join("testdata", name+".txtar")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		old := txtar.Parse(data)
		want := map[string]string{}
		for _, f := range old.Files {
			want[f.Name] = string(f.Data)
		}
		now := &txtar.Archive{Comment: old.Comment}
		for _, f := range old.Files {
			base, ok := strings.CutSuffix(f.Name, ".in")
			if !ok {
				continue
			}
			now.Files = append(now.Files, f)
			t.Run(name+"/"+base, func(t *testing.T) {
				g, err := graph.Parse(string(f.Data))
				if err != nil {
					t.Fatal(err)
				}
				for _, run := range []func(*graph.Graph) error{pass, (*graph.Graph).Sort, graph.DCE, graph.Verify} {
					if err := run(g); err != nil {
						t.Fatal(err)
					}
				}
				got := g.String()
				now.Files = append(now.Files, txtar.File{Name: base + ".want", Data: []byte(got)})
				if !*update && got != want[base+".want"] {
					t.Errorf("got\n%s\nwant\n%s", got, want[base+".want"])
				}
			})
		}
		if text := txtar.Format(now); *update && !bytes.Equal(text, data) {
			if err := os.WriteFile(path, text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}
