package browsertest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// serve starts graphrun serve on a free port of this machine and returns the
// address of its page. It serves the embedded model.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(graphrun(t), append([]string{"serve", "--listen", "127.0.0.1:0", "-t", "1", "--drain", "0s"}, args...)...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	url := make(chan string, 1)
	go func() {
		listening := regexp.MustCompile(`url=(http://\S+)`)
		for s := bufio.NewScanner(log); s.Scan(); {
			if m := listening.FindStringSubmatch(s.Text()); m != nil {
				url <- m[1]
			}
		}
		close(url)
	}()
	select {
	case u := <-url:
		return u
	case <-time.After(30 * time.Second):
		t.Fatal("the server does not listen after 30 s")
	}
	return ""
}

// await waits until an expression is true.
func await(t *testing.T, ctx context.Context, expr string) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if js[bool](t, ctx, expr) {
			return
		}
		if time.Now().After(end) {
			shoot(t, ctx, "failed")
			t.Fatalf("never true: %s\nthe page says: %s\n%s", expr, js[string](t, ctx, `document.body.innerText`), js[string](t, ctx, `JSON.stringify(window.faults || [])`))
		}
	}
}

// openPage loads the page in a window of a size and notes what goes wrong in it.
func openPage(t *testing.T, ctx context.Context, url string, width, height int64, scheme string) {
	t.Helper()
	visit(t, ctx, url, width, height, scheme, "#input")
	js[bool](t, ctx, `(() => { window.faults = [];
		addEventListener("error", (e) => faults.push(e.message));
		addEventListener("unhandledrejection", (e) => faults.push(String(e.reason)));
		document.addEventListener("securitypolicyviolation", (e) => faults.push(e.violatedDirective + " " + e.blockedURI));
		return true; })()`)
	await(t, ctx, `document.getElementById("model").textContent !== "…" && document.getElementById("state").textContent === "ready"`)
}

// healthy checks that nothing went wrong in the page, and that it asked nobody
// but its server.
func healthy(t *testing.T, ctx context.Context, url string) {
	t.Helper()
	if f := js[[]string](t, ctx, `window.faults`); len(f) > 0 {
		t.Errorf("faults of the page: %q", f)
	}
	for _, u := range js[[]string](t, ctx, `performance.getEntriesByType("resource").map((e) => e.name)`) {
		if !strings.HasPrefix(u, url+"/") && !strings.HasPrefix(u, "blob:"+url) {
			t.Errorf("the page asked for %s", u)
		}
	}
}

// press types into the element that has the focus.
func press(t *testing.T, ctx context.Context, keys string) {
	t.Helper()
	run(t, ctx, chromedp.KeyEvent(keys))
}

// set changes a setting as a person would.
func set(t *testing.T, ctx context.Context, id, value string) {
	t.Helper()
	js[bool](t, ctx, fmt.Sprintf(`(() => { const e = document.getElementById(%q); if (e.type === "checkbox") e.checked = %q === "true"; else e.value = %q;
		e.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`, id, value, value))
}

const idle = `!document.getElementById("send").hidden`

func answers(n int) string {
	return fmt.Sprintf(`document.querySelectorAll('[data-role="assistant"]').length === %d && %s`, n, idle)
}

const lastAnswer = `[...document.querySelectorAll('[data-role="assistant"]')].at(-1).textContent`

// TestContinue writes a text with a model that has no chat template, by keyboard
// alone.
func TestContinue(t *testing.T) {
	ctx, url := browser(t), serve(t)
	openPage(t, ctx, url, 1280, 800, "light")
	if got := js[string](t, ctx, `document.activeElement.id`); got != "input" {
		t.Errorf("the focus is on %q at the start, want the input", got)
	}
	set(t, ctx, "temperature", "0")
	set(t, ctx, "max_tokens", "30")
	js[bool](t, ctx, `(document.getElementById("input").focus(), true)`)
	press(t, ctx, "Once upon a time")
	press(t, ctx, "\r")
	await(t, ctx, answers(1))
	first := js[string](t, ctx, lastAnswer)
	if len(first) < 20 {
		t.Errorf("the model went on with %q", first)
	}
	if u := js[string](t, ctx, `document.getElementById("usage").textContent`); !strings.Contains(u, "30 generated") || !strings.Contains(u, "ended at the limit") {
		t.Errorf("the line of numbers is %q", u)
	}
	shoot(t, ctx, "continued")

	// The same again: temperature 0, and the prompt from the cache.
	run(t, ctx, chromedp.Click(chromedp.CSS("#again")))
	await(t, ctx, answers(1)+` && document.getElementById("usage").textContent.includes("generated")`)
	if got := js[string](t, ctx, lastAnswer); got != first {
		t.Errorf("again gave %q, want %q", got, first)
	}

	// Tokens with what else could have come.
	set(t, ctx, "tokens", "true")
	if n := js[int](t, ctx, `document.querySelectorAll(".token").length`); n != 30 {
		t.Errorf("%d tokens are shown, want 30", n)
	}
	if got := js[string](t, ctx, `[...document.querySelectorAll(".token")].map((e) => e.textContent).join("")`); got != first {
		t.Errorf("the tokens together are %q, want %q", got, first)
	}
	js[bool](t, ctx, `(document.querySelectorAll(".token")[3].focus(), true)`)
	tip := js[string](t, ctx, `document.getElementById("tip").hidden ? "" : document.getElementById("tip").innerText`)
	if strings.Count(tip, "%") < 5 {
		t.Errorf("a token with the focus shows %q, want five probabilities", tip)
	}
	shoot(t, ctx, "tokens")
	healthy(t, ctx, url)
}

// TestStop ends an answer in the middle, and one that ends by itself after that
// works.
func TestStop(t *testing.T) {
	ctx, url := browser(t), serve(t, "-c", "512")
	openPage(t, ctx, url, 1280, 800, "light")
	set(t, ctx, "seed", "7")
	js[bool](t, ctx, `(() => { const f = fetch; window.fetch = async (u, o) => {
		const r = await f(u, o);
		if (!String(u).includes("completions")) return r;
		const text = await r.text(), enc = new TextEncoder();
		const slow = new ReadableStream({ async start(k) {
			for (const part of text.split(/(?<=\n\n)/)) {
				await new Promise((x) => setTimeout(x, 200));
				if (o.signal.aborted) { k.error(o.signal.reason); return; }
				k.enqueue(enc.encode(part));
			}
			k.close();
		} });
		return { ok: r.ok, body: slow, status: r.status };
	}; document.getElementById("input").focus(); return true; })()`)
	press(t, ctx, "The dog")
	press(t, ctx, "\r")
	await(t, ctx, `!document.getElementById("stop").hidden && document.querySelector('[data-role="assistant"]').textContent.length > 0`)
	run(t, ctx, chromedp.Click(chromedp.CSS("#stop")))
	await(t, ctx, idle)
	if got := js[string](t, ctx, `document.getElementById("usage").textContent`); got != "stopped" {
		t.Errorf("after Stop the line says %q", got)
	}
	run(t, ctx, chromedp.Click(chromedp.CSS("#clear")))
	if n := js[int](t, ctx, `document.querySelectorAll(".message").length`); n != 0 {
		t.Errorf("%d messages after Clear", n)
	}
	healthy(t, ctx, url)
}

// TestChat talks to a model with a template on a phone, in the dark, with a key.
func TestChat(t *testing.T) {
	template := filepath.Join(t.TempDir(), "chat.jinja")
	if err := os.WriteFile(template, []byte(`{% for m in messages %}{{ m.content }} {% endfor %}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GRAPHRUN_API_KEYS", "a-key-for-tests")
	ctx, url := browser(t), serve(t, "--template", template)
	run(t, ctx, chromedp.EmulateViewport(375, 740), chromedp.Navigate(url), chromedp.WaitReady(chromedp.CSS("#input")))
	await(t, ctx, `document.getElementById("usage").textContent.includes("API key")`)
	set(t, ctx, "key", "a-key-for-tests")
	await(t, ctx, `document.getElementById("model").textContent !== "…"`)
	openPage(t, ctx, url, 375, 740, "dark")
	if got := js[string](t, ctx, `document.documentElement.dataset.theme`); got != "dark" {
		t.Errorf("the theme is %q where the system is dark", got)
	}
	set(t, ctx, "system", "A story.")
	set(t, ctx, "max_tokens", "20")
	for i, text := range []string{"Once there was a cat.", "And then?"} {
		js[bool](t, ctx, `(document.getElementById("input").focus(), true)`)
		press(t, ctx, text)
		press(t, ctx, "\r")
		await(t, ctx, answers(i+1)+` && document.getElementById("usage").textContent.includes("generated")`)
	}
	shoot(t, ctx, "phone-dark")
	if w := js[int](t, ctx, `document.documentElement.scrollWidth`); w > 375 {
		t.Errorf("the page is %d pixels wide on a phone of 375", w)
	}
	healthy(t, ctx, url)
}

// TestInside shows the graph and the live profile.
func TestInside(t *testing.T) {
	ctx, url := browser(t), serve(t)
	openPage(t, ctx, url, 1400, 900, "light")
	js[bool](t, ctx, `(document.getElementById("tab-chat").focus(), true)`)
	run(t, ctx, chromedp.KeyEvent("\u0303")) // ArrowRight
	await(t, ctx, `document.getElementById("tab-graph").getAttribute("aria-selected") === "true"`)
	await(t, ctx, `document.getElementById("graph-frame").contentDocument.querySelectorAll(".col").length > 3`)
	shoot(t, ctx, "graph")
	run(t, ctx, chromedp.Click(chromedp.CSS("#tab-profile")), chromedp.Click(chromedp.CSS("#profile-run")))
	js[bool](t, ctx, `(fetch("v1/completions", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ prompt: "Once", max_tokens: 100, logit_bias: {} }) }), true)`)
	await(t, ctx, `[...document.querySelectorAll("#profile td:first-child")].some((e) => e.textContent.startsWith("gatedmatmul"))`)
	shoot(t, ctx, "profile")
	healthy(t, ctx, url)
}
