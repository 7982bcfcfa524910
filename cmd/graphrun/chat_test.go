package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"graphrun/chat"
	"graphrun/loaders"
)

// after makes the model answer the token start with these tokens.
func (c *chain) after(t testing.TB, start string, tokens ...string) {
	t.Helper()
	at := c.id(start)
	for _, text := range tokens {
		to := c.id(text)
		if _, ok := c.next[at]; ok {
			t.Fatalf("token %q occurs twice", c.tokens[at])
		}
		c.next[at] = to
		at = to
	}
}

// A template in the style of Gemma 4: the prompt ends in a control token of its
// own.
const channelTemplate = `{{ bos_token }}{% if enable_thinking %}<|think|>{% endif %}{% for m in messages %}<|turn>{{ m.role }}
{{ m.content | trim }}<turn|>
{% endfor %}{% if add_generation_prompt %}<|turn>model<|ready>{% endif %}{% if open_thought %}<|channel>thought
{% endif %}`

// chatChain returns a model with this template that answers with the tokens.
func chatChain(t testing.TB, tokens ...string) string {
	t.Helper()
	c := newChain()
	for _, s := range []string{"<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|think|>", "<|ready>"} {
		c.add(s, loaders.TokenControl)
	}
	c.template = channelTemplate
	c.after(t, "<|ready>", tokens...)
	return c.write(t)
}

func TestChat(t *testing.T) {
	for _, c := range []struct {
		name     string
		say      []string
		out, err string
	}{
		{"answer", []string{"▁well", "▁done", "<turn|>"}, " well done\n", ""},
		{"thought", []string{"<|channel>", "thought", "\n", "plan", "<channel|>", "answer", "<turn|>"}, "answer\n", "plan"},
		{"never closed", []string{"<|channel>", "thought", "\n", "plan", "<turn|>"}, "\n", "plan"},
		{"end of text", []string{"▁well", "</s>", "▁no"}, " well\n", ""},
		{"bytes", []string{"<0xEA>", "<0xB9>", "<0xB0>", "<turn|>"}, "\uae70\n", ""},
		{"other control token", []string{"a", "<|pad|>", "b", "<turn|>"}, "ab\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := cli(t, "hello\n", "chat", chatChain(t, c.say...), "--temp", "0")
			if r.code != 0 || r.out != c.out || !strings.Contains(r.err, c.err) {
				t.Errorf("exit %d\n out %q\nwant %q\n err %q", r.code, r.out, c.out, r.err)
			}
			if strings.Contains(r.out+r.err, "<|") || strings.Contains(r.out+r.err, "|>") {
				t.Errorf("markers in %q or %q", r.out, r.err)
			}
		})
	}
}

// TestChatConversation walks through the commands.
func TestChatConversation(t *testing.T) {
	model := chatChain(t, "▁yes", "<turn|>")
	dir := t.TempDir()
	file := filepath.Join(dir, "talk.json")
	in := strings.Join([]string{
		"/help", "first \\", "line two", "//slash", "/system Be brief.", "/stats", "/save " + file, "", "/reset", "again", "/load " + file, "/exit", "not read",
	}, "\n")
	r := cli(t, in, "chat", model, "--temp", "0", "--think", "-c", "512")
	if r.code != 0 {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	if n := strings.Count(r.out, " yes\n"); n != 3 {
		t.Errorf("%d answers, want 3: %q", n, r.out)
	}
	for _, s := range []string{"/system TEXT", "of them known", "tok/s"} {
		if !strings.Contains(r.out, s) {
			t.Errorf("%q is not in %q", s, r.out)
		}
	}
	if !strings.Contains(r.err, "5 messages in") || !strings.Contains(r.err, "5 messages from") {
		t.Errorf("saving and loading say %q", r.err)
	}
	var list []chat.Message
	readJSON(t, file, &list)
	var roles, texts []string
	for _, m := range list {
		roles, texts = append(roles, m.Role), append(texts, m.Content.String())
	}
	if got := strings.Join(roles, " "); got != "system user assistant user assistant" {
		t.Errorf("roles %s", got)
	}
	if texts[0] != "Be brief." || texts[1] != "first \nline two" || texts[3] != "/slash" || texts[4] != " yes" {
		t.Errorf("texts %q", texts)
	}
	if names := left(t, dir); len(names) != 1 {
		t.Errorf("left in the folder: %q", names)
	}
}

// TestChatReuse: the second turn computes only what is new.
func TestChatReuse(t *testing.T) {
	r := cli(t, "a question of some length\nanother\n/stats\n", "chat", chatChain(t, "▁yes", "<turn|>"), "--temp", "0", "-c", "512")
	var prompt, cached int
	i := strings.Index(r.out, "last prompt ")
	if i < 0 {
		t.Fatalf("no counts in %q: %s", r.out, r.err)
	}
	if _, err := sscanTwo(r.out[i:], &prompt, &cached); err != nil {
		t.Fatal(err)
	}
	if cached < 30 || prompt-cached > 50 {
		t.Errorf("prompt of %d tokens, %d known", prompt, cached)
	}
}

func sscanTwo(s string, a, b *int) (int, error) {
	var err error
	for k, p := range []*int{a, b} {
		i := strings.IndexAny(s, "0123456789")
		n := i
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		if err = json.Unmarshal([]byte(s[i:n]), p); err != nil {
			return k, err
		}
		s = s[n:]
	}
	return 2, nil
}

func TestChatRefuses(t *testing.T) {
	model := chatChain(t, "▁yes", "<turn|>")
	bare := newChain()
	bare.say(t, "</s>")
	plain := bare.write(t)
	refused(t, exitFailed, []string{"chat", plain}, "no chat template", "graphrun run")
	refused(t, exitUsage, []string{"chat", model, "-n", "-1"}, "-n")
	refused(t, exitUsage, []string{"chat", model, "more"}, "argument")
	refused(t, exitFailed, []string{"chat", filepath.Join(t.TempDir(), "no.gguf")}, "no such")
	bad := filepath.Join(t.TempDir(), "bad.jinja")
	if err := os.WriteFile(bad, []byte("{% if x %}"), 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, exitFailed, []string{"chat", model, "--template", bad}, "bad.jinja", "unclosed")
	for _, in := range []string{"/nosuch\n", "/save\n", "/load\n", "/load " + bad + "\n"} {
		if r := cli(t, in, "chat", model); r.code != exitFailed || strings.Count(r.err, "\n") != 1 {
			t.Errorf("%q: exit %d, %q", in, r.code, r.err)
		}
	}
	// The embedded model writes stories and has no template.
	r := cli(t, "hello\n", "chat")
	if r.code != exitFailed || !strings.Contains(r.err, "graphrun run") {
		t.Errorf("embedded model: exit %d, %q", r.code, r.err)
	}
}

// TestChatTemplateError: the message that a template raises is shown.
func TestChatTemplateError(t *testing.T) {
	c := newChain()
	c.template = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}x"
	r := cli(t, "hello\n", "chat", c.write(t), "--system", "s")
	if r.code != exitFailed || !strings.Contains(r.err, "System role not supported") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
}

// TestChatEnds: a model that never stops ends with the program's context.
func TestChatEnds(t *testing.T) {
	c := newChain()
	c.template = "{{ messages[-1].content }}<|ready|>"
	c.after(t, "<|ready|>", "▁a", "▁b", "▁a")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	r := cliContext(ctx, "hello\n", "chat", c.write(t), "--temp", "0", "-c", "100000")
	if r.code != exitFailed || !strings.Contains(r.out, "a b a b") || !strings.Contains(r.err, "interrupted") {
		t.Errorf("exit %d, %.60q, %q", r.code, r.out, r.err)
	}
}

func TestTemplate(t *testing.T) {
	c := newChain()
	c.template = "{{ bos_token }}{{ messages[0].content }}|{{ strftime_now('%Y') }}|{{ tools | tojson }}{% if fail %}{{ raise_exception('Not this way') }}{% endif %}"
	model := c.write(t)
	input := `{"messages": [{"role": "user", "content": "<b>"}], "tools": [{"z": 1, "a": 1.0}], "strftime_now": "now"}`
	if r := cli(t, input, "template", model); r.code != 0 || r.out != `<s><b>|now|[{"z": 1, "a": 1.0}]` {
		t.Errorf("exit %d, %q, %s", r.code, r.out, r.err)
	}
	file := filepath.Join(t.TempDir(), "case.json")
	if err := os.WriteFile(file, []byte(`{"bos_token": "B", "messages": [{"content": "x"}], "tools": [], "strftime_now": "y", "fail": false}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "template", model, "--input", file); out != "Bx|y|[]" {
		t.Errorf("%q", out)
	}
	jinja := filepath.Join(t.TempDir(), "t.jinja")
	if err := os.WriteFile(jinja, []byte("{{ bos_token }}{{ messages[0].content }}\n\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "template", jinja, "--input", file); out != "Bx\n" {
		t.Errorf("%q", out)
	}
	for _, x := range []struct{ in, want string }{{`{"fail": true, "messages": [{"content": ""}], "tools": []}`, "Not this way"}, {`{"messages": [], "tools": []}`, "undefined"}, {`[]`, "object"}, {`{"a":`, "unexpected"}, {``, "unexpected"}, {`{} {}`, "more than one"}} {
		if r := cli(t, x.in, "template", model); r.code != exitFailed || !strings.Contains(r.err, x.want) || strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%s: exit %d, %q", x.in, r.code, r.err)
		}
	}
	refused(t, exitFailed, []string{"template", filepath.Join(t.TempDir(), "no.jinja")}, "no such")
	refused(t, exitUsage, []string{"template"}, "argument")
}
