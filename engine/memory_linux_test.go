package engine

import (
	"errors"
	"os"
	"strings"
	"testing"

	"graphrun/graph"
)

func TestEstimate(t *testing.T) {
	b := graph.NewBuilder("g")
	op := graph.LookupOp("memtest")
	if op == nil {
		op = graph.Register(&graph.Op{Name: "memtest", MinArgs: 1, MaxArgs: 2,
			Infer: func(a []graph.Type, _ graph.Attrs) (graph.Type, error) { return a[0], nil }})
	}
	w := b.Weight("w", graph.Q4_0, graph.ShapeOf(8, 64))
	x := b.Input("x", graph.F32, graph.Rows("T", 4))
	b.Cache("full", graph.Type{DType: graph.F16, Shape: graph.Rows("S", 2, 1, 16)}, 0)
	for range 2 {
		b.Cache("swa", graph.Type{DType: graph.F16, Shape: graph.Rows("SW", 2, 2, 16)}, 100)
	}
	y := b.Op(op, nil, x)    // 10 rows of 16 bytes
	z := b.Op(op, nil, y, y) // y dies here
	u := b.Op(op, nil, z)
	b.Output("y", u)
	g, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r := estimate(g, graph.Dims{"T": 10, "S": 128, "SW": 64})
	if r.Weights != w.Type.Bytes(nil) || r.Arena != 320 || len(r.KV) != 2 {
		t.Errorf("%+v", r)
	}
	if k := r.KV[0]; k.Window != 0 || k.Layers != 1 || k.Positions != 128 || k.Bytes != 128*2*16*2 {
		t.Errorf("full layers: %+v", k)
	}
	if k := r.KV[1]; k.Window != 100 || k.Layers != 2 || k.Bytes != 2*64*2*2*16*2 {
		t.Errorf("windowed layers: %+v", k)
	}
	if r.Total != r.Weights+r.KVBytes()+r.Arena {
		t.Errorf("total %d", r.Total)
	}
	text := r.String()
	for _, want := range []string{"weights", "window 100, 2 layers of 64 positions, f16", "total"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	r.Available, r.Limit = r.Total-1, "MemAvailable"
	if r.fits() {
		t.Error("too little is enough")
	}
	err = &MemoryError{Report: r}
	var e *MemoryError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "MemAvailable") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestAvailable(t *testing.T) {
	meminfo := "MemTotal: 16000 kB\nMemAvailable:    8000 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int
		limit string
	}{
		{"machine", map[string]string{"/proc/meminfo": meminfo}, 8000 * 1024, "MemAvailable"},
		{"group without limit", map[string]string{"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n"}, 8000 * 1024, "MemAvailable"},
		{"limit above", map[string]string{"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/memory.max": "4000000\n", "/sys/fs/cgroup/a/memory.current": "1000000\n",
			"/sys/fs/cgroup/a/memory.stat":  "anon 5\ninactive_file 300000\nactive_file 200000\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n"}, 3500000, "memory limit of control group /a"},
		{"container", map[string]string{"/proc/meminfo": meminfo, "/proc/self/cgroup": "0::/host/path\n",
			"/sys/fs/cgroup/memory.max": "5000000\n"}, 5000000, "memory limit of control group /"},
		{"version 1", map[string]string{"/proc/meminfo": meminfo, "/proc/self/cgroup": "4:cpu,memory:/x\n3:pids:/x\n",
			"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "6000000\n", "/sys/fs/cgroup/memory/x/memory.usage_in_bytes": "7000000\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1, "memory limit of control group /x"},
		{"nothing known", nil, 0, ""},
	} {
		n, limit := availableIn(func(name string) ([]byte, error) {
			if s, ok := c.files[name]; ok {
				return []byte(s), nil
			}
			return nil, os.ErrNotExist
		})
		if n != c.want || limit != c.limit {
			t.Errorf("%s: %d, %q, want %d, %q", c.name, n, limit, c.want, c.limit)
		}
	}
	if n, limit := available(); n <= 0 || limit == "" {
		t.Errorf("here: %d, %q", n, limit)
	}
}
