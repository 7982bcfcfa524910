package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A schema and a grammar hold on the command line, whatever the temperature.
func TestConstrained(t *testing.T) {
	schema, verdict := filepath.Join("..", "..", "testdata", "grammar", "cat.json"), filepath.Join("..", "..", "testdata", "grammar", "verdict.gbnf")
	form := regexp.MustCompile(`^(yes|no), because [a-z]{1,12}( [a-z]{1,12}){0,5}\.$`)
	src, err := os.ReadFile(schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, temp := range []string{"0", "1.5"} {
		for _, r := range []result{
			cli(t, "", "run", "Tom:", "--json-schema", schema, "-o", "json", "--temp", temp, "--seed", "3"),
			cli(t, string(src), "run", "Tom:", "--json-schema", "-", "-o", "json", "--temp", temp, "--seed", "4"),
		} {
			a := answerOf(t, r)
			var cat struct {
				Name  *string
				Age   int
				Likes []string
			}
			d := json.NewDecoder(strings.NewReader(a.Text))
			d.DisallowUnknownFields()
			if err := d.Decode(&cat); err != nil || cat.Name == nil || cat.Age < 1 || cat.Age > 20 || len(cat.Likes) > 2 || a.Stop != "stop" {
				t.Errorf("%q: %v, ended by %s", a.Text, err, a.Stop)
			}
		}
		if a := answerOf(t, cli(t, "", "run", "Is it?", "--grammar", verdict, "-o", "json", "--temp", temp, "--seed", "5")); !form.MatchString(a.Text) {
			t.Errorf("%q", a.Text)
		}
	}
}

func TestConstrainedRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.json", `{"type":"null"}`)
	refused(t, exitFailed, []string{"run", "x", "--json-schema", write("bad.json", `{"properties":{"a":{"type":"strin"}}}`)}, "bad.json", "/properties/a/type")
	refused(t, exitFailed, []string{"run", "x", "--grammar", write("bad.gbnf", "root ::= x\nx = \"y\"")}, "bad.gbnf", "2:3", "::=")
	refused(t, exitFailed, []string{"run", "x", "--grammar", filepath.Join(dir, "no.gbnf")}, "no.gbnf")
	refused(t, exitUsage, []string{"run", "x", "--grammar", good, "--json-schema", good}, "exclude")
	refused(t, exitUsage, []string{"run", "x", "--json-schema", good, "--ignore-eog"}, "--ignore-eog")
	refused(t, exitUsage, []string{"run", "--json-schema", "-"}, "standard input")
	refused(t, exitUsage, []string{"chat", good, "--json-schema", "-"}, "standard input")
}

// In a chat every answer begins the grammar anew.
func TestConstrainedChat(t *testing.T) {
	path := chatChain(t, "▁well", "<turn|>")
	file := filepath.Join(t.TempDir(), "g.gbnf")
	if err := os.WriteFile(file, []byte(`root ::= "a" "b"{2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := cli(t, "one\ntwo\n", "chat", path, "--temp", "0", "--grammar", file); r.code != 0 || r.out != "abb\nabb\n" {
		t.Errorf("exit %d, %q, %q", r.code, r.out, r.err)
	}
}
