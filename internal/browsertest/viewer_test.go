package browsertest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"graphrun/graph"
	"graphrun/loaders"
)

// viewer runs graphrun --dump=html and returns the address of the page. An empty
// model is the embedded one.
func viewer(t *testing.T, model string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "page.html")
	args := []string{"--dump=html", "-o", out}
	if model != "" {
		args = append(args, model)
	}
	if b, err := exec.Command(graphrun(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("graphrun --dump=html: %v\n%s", err, b)
	}
	return "file://" + filepath.ToSlash(out)
}

// openViewer loads the page and returns the milliseconds from its start until it
// was drawn.
func openViewer(t *testing.T, ctx context.Context, url string, width, height int64, scheme string) int {
	t.Helper()
	visit(t, ctx, url, width, height, scheme, "html[data-ready]")
	return js[int](t, ctx, `+document.documentElement.dataset.ready`)
}

// texts returns the text of every element a selector finds.
func texts(t *testing.T, ctx context.Context, selector string) []string {
	t.Helper()
	return js[[]string](t, ctx, fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.textContent)`, selector))
}

func TestViewer(t *testing.T) {
	ctx, url := browser(t), viewer(t, "")
	openViewer(t, ctx, url, 1680, 1000, "light")
	shoot(t, ctx, "light")

	cols := texts(t, ctx, ".col h2")
	if len(cols) < 4 || !strings.HasPrefix(cols[0], "build") || !strings.Contains(strings.Join(cols, "|"), "fuse-gated") {
		t.Fatalf("columns %q, want build first and one for fuse-gated", cols)
	}
	if got := texts(t, ctx, ".col:first-child .times"); len(got) != 1 || got[0] != "×3" {
		t.Errorf("folded blocks of the first column %q, want one of ×3: the last layer computes the wanted rows alone", got)
	}

	// A click selects a value, the attention of layer 0, in every column, its uses, and fills the panel.
	run(t, ctx, chromedp.Click(chromedp.CSS(`.col:first-child .row[id$="v22"] .v`)))
	id := js[string](t, ctx, `document.querySelector(".col:first-child .row.sel .v").textContent`)
	if id != "v22" {
		t.Fatalf("clicked v22, selected %s", id)
	}
	if n := js[int](t, ctx, `new Set([...document.querySelectorAll(".row.sel")].map(e => e.id.replace(/v.*/, ""))).size`); n != len(cols) {
		t.Errorf("v22 is selected in %d of %d columns", n, len(cols))
	}
	if got := js[[]string](t, ctx, `[...document.querySelectorAll(".col:first-child .row.uses .op")].map(e => e.textContent)`); len(got) != 1 || got[0] != "reshape" {
		t.Errorf("uses of v22 in the first column are %q, want one reshape", got)
	}
	if got := js[[]string](t, ctx, `[...document.querySelectorAll(".col:last-child .row.uses .op")].map(e => e.textContent)`); len(got) != 1 || got[0] != "reshape" {
		t.Errorf("uses of v22 in the last column are %q, want one reshape", got)
	}
	if js[bool](t, ctx, `new Set([...document.querySelectorAll('.v[data-v="22"]')].map(e => e.style.getPropertyValue("--h"))).size !== 1`) {
		t.Error("v22 has more than one colour")
	}
	panel := js[string](t, ctx, `document.getElementById("panel").innerText`)
	for _, want := range []string{"attention", "attn.ctx", "f32", "[T,4,32]", "512 B", "offset", "steps 22 to", "llama.go:"} {
		if !strings.Contains(panel, want) {
			t.Errorf("the panel lacks %q:\n%s", want, panel)
		}
	}
	shoot(t, ctx, "light-selected")

	// The panel tells the largest step, too.
	run(t, ctx, chromedp.Click(chromedp.CSS(`[data-step="1"]`)))
	if panel := js[string](t, ctx, `document.getElementById("panel").innerText`); !strings.Contains(panel, "256.0 KiB") && !strings.Contains(panel, "256 KiB") {
		t.Errorf("v22 of 512 tokens has not 256 KiB in the panel:\n%s", panel)
	}
}

func TestKeys(t *testing.T) {
	ctx, url := browser(t), viewer(t, "")
	// The attention of layer 0, which no pass touches.
	openViewer(t, ctx, url+"#v22", 1680, 1000, "dark")
	selected := func() string {
		return js[string](t, ctx, `document.querySelector("#panel h2").textContent`)
	}
	if got := selected(); got != "v22attention" {
		t.Fatalf("the address names v22, selected is %s", got)
	}
	key := func(k string) { t.Helper(); run(t, ctx, chromedp.KeyEvent(k)) }
	key("u")
	if got := selected(); got != "v23reshape" {
		t.Errorf("the first use of v22 is %s, want the reshape v23", got)
	}
	key("]")
	if got := selected(); got != "v53reshape" {
		t.Errorf("the same value one layer on is %s, want v53", got)
	}
	if got := texts(t, ctx, ".col:last-child .block b"); len(got) == 0 || got[0] != "layer 1" {
		t.Errorf("shown blocks are %q, want layer 1 first", got)
	}
	shoot(t, ctx, "dark-selected")
	key("\b")
	if got := selected(); got != "v22attention" {
		t.Errorf("Backspace goes to %s, want v22", got)
	}
	key("o")
	if got := js[int](t, ctx, `document.querySelectorAll("#b-open[aria-pressed=true]").length`); got != 1 {
		t.Error("o does not open all layers")
	}
	key("\x1b")
	find := func(text string) {
		t.Helper()
		key("/")
		if got := js[string](t, ctx, `document.activeElement.id`); got != "query" {
			t.Fatalf("/ goes to %q, want the search", got)
		}
		js[string](t, ctx, `document.getElementById("query").value = ""`) // the driver types the / as well
		key(text)
	}
	find("l3 softmax")
	if got := js[string](t, ctx, `document.getElementById("found").textContent`); got != "0 values" {
		t.Errorf("search for what is not there says %q", got)
	}
	key("\x1b")
	find("l3 attention\r")
	if got := selected(); !strings.HasSuffix(got, "attention") {
		t.Errorf("Enter in the search selects %s, want an attention", got)
	}
	if got := js[string](t, ctx, `document.getElementById("found").textContent`); got != "1 of 1" {
		t.Errorf("the search says %q, want 1 of 1", got)
	}
}

func TestNarrow(t *testing.T) {
	ctx, url := browser(t), viewer(t, "")
	openViewer(t, ctx, url, 420, 860, "light")
	shoot(t, ctx, "narrow")
	run(t, ctx, chromedp.Click(chromedp.CSS(`.col:first-child .row[id$="v8"]`)))
	shoot(t, ctx, "narrow-selected")
	if js[bool](t, ctx, `document.documentElement.scrollWidth > innerWidth`) {
		t.Error("the page is wider than the window")
	}
	if !js[bool](t, ctx, `getComputedStyle(document.getElementById("panel")).display === "block"`) {
		t.Error("the details are not shown")
	}
}

// TestLarge opens the page of a model of 62 layers.
func TestLarge(t *testing.T) {
	ctx, url := browser(t), viewer(t, gemma(t, 62))
	ms := openViewer(t, ctx, url, 1680, 1000, "light")
	for range 2 { // the machine may be busy with other tests
		ms = min(ms, openViewer(t, ctx, url, 1680, 1000, "light"))
	}
	values := js[string](t, ctx, `document.getElementById("facts").textContent`)
	t.Logf("%s: ready after %d ms", values, ms)
	if ms > 2000 {
		t.Errorf("the page was ready after %d ms, want 2000 or less", ms)
	}
	shoot(t, ctx, "large")
	if got := js[int](t, ctx, `performance.getEntriesByType("resource").length`); got != 0 {
		t.Errorf("the page loads %d resources", got)
	}
	// Opened, it draws only what is in sight.
	start := time.Now()
	run(t, ctx, chromedp.Click(chromedp.CSS("#b-open")))
	run(t, ctx, chromedp.Click(chromedp.CSS(`.col:first-child .row .v`)))
	run(t, ctx, chromedp.KeyEvent("End"), chromedp.KeyEvent("Home"))
	rows := js[int](t, ctx, `document.querySelectorAll(".row").length`)
	t.Logf("opened, clicked and moved in %v, %d rows drawn", time.Since(start).Round(time.Millisecond), rows)
	if rows > 600 {
		t.Errorf("%d rows are drawn at once", rows)
	}
	openViewer(t, ctx, url, 1680, 1000, "dark")
	run(t, ctx, chromedp.SendKeys(chromedp.CSS("#query"), "l17 ffn.act\r"))
	shoot(t, ctx, "large-dark")
}

// gemma writes a Gemma 3 of small widths and returns its path.
func gemma(t *testing.T, layers int) string {
	t.Helper()
	const D, F, K, V = 64, 128, 32, 96
	meta := loaders.NewMetadata()
	meta.Set("general.architecture", "gemma3")
	for k, n := range map[string]int{"block_count": layers, "context_length": 4096, "embedding_length": D, "feed_forward_length": F,
		"attention.head_count": 2, "attention.head_count_kv": 1, "attention.key_length": K, "attention.value_length": K, "attention.sliding_window": 1024} {
		meta.Set("gemma3."+k, uint32(n))
	}
	meta.Set("gemma3.attention.layer_norm_rms_epsilon", float32(1e-6))
	meta.Set("gemma3.rope.freq_base", float32(1e6))
	tokens, scores, types := make([]string, V), make([]float32, V), make([]int32, V)
	for i := range tokens {
		tokens[i], types[i] = fmt.Sprintf("w%d", i), 1
	}
	meta.Set("tokenizer.ggml.model", "llama")
	meta.Set("tokenizer.ggml.tokens", tokens)
	meta.Set("tokenizer.ggml.scores", scores)
	meta.Set("tokenizer.ggml.token_type", types)

	var list []loaders.TensorInfo
	add := func(dt graph.DType, name string, shape ...int) {
		list = append(list, loaders.TensorInfo{Name: name + ".weight", DType: dt, Shape: shape})
	}
	add(graph.Q8_0, "token_embd", V, D)
	add(graph.F32, "output_norm", D)
	for l := range layers {
		b := fmt.Sprintf("blk.%d.", l)
		for _, norm := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
			add(graph.F32, b+norm, D)
		}
		add(graph.F32, b+"attn_q_norm", K)
		add(graph.F32, b+"attn_k_norm", K)
		add(graph.Q8_0, b+"attn_q", 2*K, D)
		add(graph.Q8_0, b+"attn_k", K, D)
		add(graph.Q8_0, b+"attn_v", K, D)
		add(graph.Q8_0, b+"attn_output", D, 2*K)
		add(graph.Q8_0, b+"ffn_gate", F, D)
		add(graph.Q8_0, b+"ffn_up", F, D)
		add(graph.Q8_0, b+"ffn_down", D, F)
	}
	path := filepath.Join(t.TempDir(), "gemma-62.gguf")
	err := loaders.Create(path, meta, list, func(w io.Writer, i int) error {
		n, err := list[i].Bytes()
		if err != nil {
			return err
		}
		b := make([]byte, n)
		if list[i].DType == graph.F32 {
			for at := 0; at < n; at += 4 {
				binary.LittleEndian.PutUint32(b[at:], math.Float32bits(1))
			}
		}
		_, err = w.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}
