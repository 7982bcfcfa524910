package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDeploy: the image is static and not root, and what the files of deploy say
// of the command is true: variables are flags, paths are there.
func TestDeploy(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	docker, kube := read("Dockerfile"), read("kubernetes.yaml")
	stages := strings.Split(docker, "\nFROM ")
	last := stages[len(stages)-1]
	if !strings.HasPrefix(last, "scratch\n") || !strings.Contains(docker, "CGO_ENABLED=0 go build") {
		t.Error("the image is not one static binary")
	}
	if user := regexp.MustCompile(`(?m)^USER (\d+)`).FindStringSubmatch(last); user == nil || user[1] == "0" {
		t.Errorf("the user of the image is %v, want a number that is not 0", user)
	}
	flags := serveCmd().Flags()
	for _, text := range []string{docker, kube} {
		for _, m := range regexp.MustCompile(`GRAPHRUN_([A-Z_]+)`).FindAllStringSubmatch(text, -1) {
			name := strings.ToLower(strings.ReplaceAll(m[1], "_", "-"))
			if flags.Lookup(name) == nil && m[1] != "API_KEYS" && m[1] != "PORT" {
				t.Errorf("%s: serve has no flag --%s", m[0], name)
			}
		}
	}
	for key, want := range map[string]string{"GRAPHRUN_DRAIN": "drain", "GRAPHRUN_PARALLEL": "parallel", "GRAPHRUN_LISTEN": "listen", "GRAPHRUN_LOG_FORMAT": "log-format"} {
		m := regexp.MustCompile(key + `\n\s+value: "?([^"\n]+)`).FindStringSubmatch(kube)
		if m == nil {
			t.Errorf("%s is not set", key)
		} else if err := flags.Set(want, m[1]); err != nil {
			t.Errorf("%s is %q: %v", key, m[1], err)
		}
	}
}
