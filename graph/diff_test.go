package graph

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	a := blocks(4, 0)
	text := func(d *Diff) string {
		var b strings.Builder
		if err := d.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if d := Compare(a, a.Clone()); !d.Equal() || d.Same != len(a.Values) {
		t.Errorf("a graph differs from its copy: %s", text(d))
	}
	// Other ids, the same graph.
	again := blocks(4, 0)
	again.nextID += 10
	for _, v := range again.Values {
		v.ID += 10
	}
	if d := Compare(a, again); !d.Equal() {
		t.Errorf("ids count: %s", text(d))
	}
	b := a.Clone()
	if err := Rules(testRules...)(b); err != nil {
		t.Fatal(err)
	}
	if err := DCE(b); err != nil {
		t.Fatal(err)
	}
	b.Find("out", -1).Attrs = MakeAttrs("by", float32(2), "bias", float32(0))
	b.Find("up", 2).Type = Type{F16, b.Find("up", 2).Type.Shape}
	const want = `- testneg : f32[T,4]   layers 0–3
- testneg act : f32[T,4]   layers 0–3
~ testadd res: (x, act) → (x, up)   layer 0
~ testadd res: (res@-1, act) → (res@-1, up)   layers 1–3
~ testmatmul up: f32[T,4] → f16[T,4]   layer 2
~ testscale out: {by=0.5} → {by=2.0}
8 values are alike, 6 differ, 8 only in the first, 0 only in the second
`
	if got := text(Compare(a, b)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := text(Compare(b, a)); !strings.HasPrefix(got, "+ testneg : f32[T,4]") {
		t.Errorf("the other way round:\n%s", got)
	}
}
