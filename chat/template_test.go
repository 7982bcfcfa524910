package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ardanlabs/jinja"

	"graphrun/internal/shared"
)

func TestPublishedTemplates(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(shared.Path(t, "templates"), "*.jinja"))
	if len(files) == 0 {
		t.Fatal("no templates found")
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jinja")
		t.Run(name, func(t *testing.T) {
			tmpl, err := ReadTemplate(file)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(strings.TrimSuffix(file, ".jinja") + ".expected.json")
			if err != nil {
				t.Fatal(err)
			}
			var want struct {
				BOS      json.RawMessage `json:"bos_token"`
				EOS      json.RawMessage `json:"eos_token"`
				Strftime json.RawMessage `json:"strftime_now"`
				Cases    []struct {
					Name     string
					Input    json.RawMessage
					Rendered *string
					Error    string
				}
			}
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			for _, c := range want.Cases {
				input := `{"bos_token":` + string(want.BOS) + `,"eos_token":` + string(want.EOS) + `,"strftime_now":` + string(want.Strftime) + "," +
					strings.TrimPrefix(strings.TrimSpace(string(c.Input)), "{")
				got, err := tmpl.RenderJSON([]byte(input))
				if c.Rendered == nil {
					var te *TemplateError
					if !errors.As(err, &te) || !te.Raised || te.Err.Error() != c.Error {
						t.Errorf("%s: error %v, want %q", c.Name, err, c.Error)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", c.Name, err)
				} else if got != *c.Rendered {
					t.Errorf("%s:\n got %q\nwant %q", c.Name, got, *c.Rendered)
				}
			}
		})
	}
}

// TestJinja compares small templates with what Python's jinja2 made of them.
// testdata/jinja.py wrote the cases.
func TestJinja(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "jinja.json"))
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Vars  json.RawMessage
		Cases []struct{ Template, Want, Error string }
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		t.Fatal(err)
	}
	for _, c := range in.Cases {
		tmpl, err := ParseTemplate("case", c.Template)
		if err != nil {
			t.Errorf("%q: %v", c.Template, err)
			continue
		}
		got, err := tmpl.RenderJSON(in.Vars)
		if (err != nil) != (c.Error != "") || got != c.Want {
			t.Errorf("%q:\n got %q, %v\nwant %q, %q", c.Template, got, err, c.Want, c.Error)
		}
	}
}

// TestTemplateErrors: each is one line that says where.
func TestTemplateErrors(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"a\n{% if x %}", "unclosed if"},
		{"a\n\n{{ x", "line 3"},
		{"\n{# x", "line 2"},
		{"a\n{% include 'x' %}", "line 2"},
		{"a\n{{ x | nosuch }}", "nosuch"},
		{"{{ x is nosuch }}", "nosuch"},
		{"{{ 'x }}", "no end"},
		{"{{ a ; b }}", "unexpected"},
		{"{{ x.y() }}", "not callable"},
		{"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested"},
		{"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
		{"{{ range(100000000) }}", "range"},
		{"{{ " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000) + " }}", "nested"},
		{strings.Repeat("x", 2<<20), "bytes"},
		{"{{ none | length }}", "length"},
		{"{{ 1 | items }}", "mapping"},
		{"{{ [1] | selectattr }}", "attribute"},
		{"{{ 'xxxx' * 1000000000 }}", "too much text"},
		{"{{ 'x' * 10000 * 10000 * 10000 }}", "too much text"},
		{"{{ ('x' * 1000) * 1000 * (2 * 3) * 1000 }}", "too much text"},
		{"{{ 'x' * 99999999999 if true else 'y' }}", "too much text"},
		{"{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "too much text"},
		{"{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "too much text"},
		{"{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "too much text"},
		{"{% macro m(a, n) %}{% if n %}{{ m(a ~ a, n - 1) }}{% endif %}{% endmacro %}{{ m('xxxx', 60) }}", "too much text"},
		{"{% set a = 'a' * 100000 %}{% for i in range(700) %}{{ a }}{% endfor %}", "prints more"},
		{"{% for i in range(700) %}" + strings.Repeat("text ", 20000) + "{% endfor %}", "prints more"},
		{"{% set a = 'a' * 100000 %}{{ a | replace('a', a) | length }}", "too much text"},
		{"{% set a = 'a' * 100000 %}{{ a.replace('a', a) }}", "too much text"},
		{"{% set a = 'a' * 100000 %}{{ range(1000) | join(a) }}", "too much text"},
		{"{{ 'a' | indent(1000000000, true) }}", "indent"},
	} {
		tmpl, err := ParseTemplate("file", c.source)
		if err == nil {
			_, err = tmpl.render(map[string]jinja.Value{"x": jinja.NewDict()}, renderer{limit: 1000})
		}
		var te *TemplateError
		if !errors.As(err, &te) || te.Raised || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: error %v, want one with %q", c.source, err, c.want)
		}
	}
	if _, err := inlineTemplate(t, "x").RenderJSON([]byte("[]")); err == nil {
		t.Error("a list is no input")
	}
}

func TestStrftime(t *testing.T) {
	now := time.Date(2024, 7, 6, 15, 4, 9, 123456000, time.FixedZone("CEST", 7200))
	for format, want := range map[string]string{
		"%d %b %Y": "06 Jul 2024", "%-d %B %y": "6 July 24", "%Y-%m-%dT%H:%M:%S%z": "2024-07-06T15:04:09+0200", "%A %a %w %u": "Saturday Sat 6 6",
		"%I:%M %p": "03:04 PM", "%j %U %W %V": "188 26 27 27", "%f%%": "123456%", "%Q %": "%Q %", "%e|%-H": " 6|15", "%c": "Sat Jul  6 15:04:09 2024",
	} {
		if got := strftime(now, format); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{{ bos_token }}{% for m in messages %}{{ m.content|trim }}{% endfor %}")
	f.Add("{%- if x is not defined -%} {{ 'a' ~ [1, {'b': 2}] | tojson(indent=2) }}{% endif +%}")
	f.Add("{% raw %}{{{% endraw %}{# c #}{% set a = 1 %}{% macro m(x=1) %}{{ x }}{% endmacro %}")
	f.Fuzz(func(t *testing.T, source string) {
		if tmpl, err := ParseTemplate("fuzz", source); err == nil {
			tmpl.RenderJSON([]byte(`{"messages":[{"role":"user","content":"x"}],"bos_token":"<s>"}`))
		}
	})
}
