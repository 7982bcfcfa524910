package hub

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseName(t *testing.T) {
	for s, want := range map[string]Name{
		"org/model":                                             {Repo: "org/model"},
		"hf.co/org/model":                                       {Repo: "org/model"},
		"HF.co/org/model/":                                      {Repo: "org/model"},
		"huggingface.co/org/model:Q4_K_M":                       {Repo: "org/model", Quant: "Q4_K_M"},
		"hf.co/org/model@v1.0:q8_0":                             {Repo: "org/model", Revision: "v1.0", Quant: "q8_0"},
		"hf.co/org/model@refs/pr/1":                             {Repo: "org/model", Revision: "refs/pr/1"},
		"hf.co/org/model:dir/m-Q4_0.gguf":                       {Repo: "org/model", Files: []string{"dir/m-Q4_0.gguf"}},
		"gpt2":                                                  {Repo: "gpt2"},
		"https://huggingface.co/org/model":                      {Repo: "org/model"},
		"https://hf.co/org/model/tree/main":                     {Repo: "org/model", Revision: "main"},
		"https://hf.co/o/m/blob/main/a/b.gguf":                  {Repo: "o/m", Revision: "main", Files: []string{"a/b.gguf"}},
		"https://hf.co/o/m/resolve/v2/a%20b.gguf?download=true": {Repo: "o/m", Revision: "v2", Files: []string{"a b.gguf"}},
	} {
		got, err := ParseName(s)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "hf.co/", "hf.co//", "a/b/c", "../b", "a/..", "a/b--c", "a/b:", "a/b:Q4 K", "a/b@", "a/b@../x", "a/b@x/../../y", "a/b@-x", "https://example.com/a/b",
		"a b/c", "a/b:../x.gguf", "a/b:/x.gguf", `a/b:x\y.gguf`, "https://hf.co/o/m/blob/main/..%2f..%2fx.gguf", "a/" + strings.Repeat("x", 200), "a/b\nc", "/a/b", "./m",
	} {
		if got, err := ParseName(s); err == nil {
			t.Errorf("%q: %+v, want an error", s, got)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error of several lines: %q", s, err)
		}
	}
	for s, want := range map[string]bool{"hf.co/a/b": true, "https://huggingface.co/a": true, "a/b": false, "hf.com/a/b": false, "./hf.co/a": false, "model.gguf": false} {
		if IsName(s) != want {
			t.Errorf("IsName(%q) is %v", s, !want)
		}
	}
}

func TestChoose(t *testing.T) {
	many := "m-Q2_K.gguf m-Q4_0.gguf m-Q4_0_4_4.gguf m-Q4_K_M.gguf m-Q4_K_S.gguf m-Q8_0-00001-of-00002.gguf m-Q8_0-00002-of-00002.gguf mmproj-m-f16.gguf imatrix.gguf UD/m-UD-Q4_K_XL.gguf m-UD-Q2_K.gguf m-f16.gguf README.md"
	llama := "config.json generation_config.json tokenizer.json tokenizer.model tokenizer_config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json original/consolidated.00.pth README.md .gitattributes consolidated.safetensors"
	for _, c := range []struct {
		files, quant, pattern string
		want                  string // names, or error: …
	}{
		{many, "Q4_0", "", "m-Q4_0.gguf"},
		{many, "q4_k_m", "", "m-Q4_K_M.gguf"},
		{many, "", "", "m-Q4_K_M.gguf"},
		{many, "Q8_0", "", "m-Q8_0-00001-of-00002.gguf m-Q8_0-00002-of-00002.gguf"},
		{many, "Q2_K", "", "m-Q2_K.gguf"},
		{many, "UD-Q2_K", "", "m-UD-Q2_K.gguf"},
		{many, "Q4_K_XL", "", "UD/m-UD-Q4_K_XL.gguf"},
		{many, "F16", "", "m-f16.gguf"},
		{many, "Q4_K", "", "error: no GGUF file of type Q4_K; it has: UD/m-UD-Q4_K_XL.gguf, m-Q2_K.gguf"},
		{many, "", "mmproj*", "mmproj-m-f16.gguf"},
		{many, "", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00001-of-00002.gguf m-Q8_0-00002-of-00002.gguf"},
		{many, "", "nosuch", `error: holds no file "nosuch"`},
		{"a-Q4_0.gguf b-Q4_0.gguf", "Q4_0", "", "error: holds 2 models of type Q4_0, name one: a-Q4_0.gguf, b-Q4_0.gguf"},
		{"a-Q4_0.gguf a-Q8_0.gguf", "", "", "error: holds 2 models, name one with :QUANT: a-Q4_0.gguf, a-Q8_0.gguf"},
		{"a-Q8_0-00001-of-00003.gguf a-Q8_0-00003-of-00003.gguf", "", "", "error: only 2 of 3 shards"},
		{"only.gguf", "", "", "only.gguf"},
		{llama, "", "", "config.json generation_config.json tokenizer.json tokenizer.model tokenizer_config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json"},
		{llama, "Q4_0", "", "error: holds no GGUF file, so there is nothing of type Q4_0"},
		{llama, "", "*.json", "config.json generation_config.json tokenizer.json tokenizer_config.json model.safetensors.index.json"},
		{"config.json pytorch_model.bin", "", "", "error: weights of PyTorch alone (pytorch_model.bin)"},
		{"README.md", "", "", "error: holds no weights"},
		{"model.safetensors", "", "", "error: no config.json"},
		{"config.json model-00001-of-00002.safetensors", "", "", "error: only 1 of 2 shards"},
		{"config.json lora.safetensors", "", "", "error: holds no model.safetensors; name the files that are wanted, it has: lora.safetensors"},
		{llama, "", "[", "error: syntax error in pattern"},
	} {
		n := Name{Repo: "org/model", Quant: c.quant}
		if c.pattern != "" {
			n.Files = []string{c.pattern}
		}
		var files []File
		for f := range strings.FieldsSeq(c.files) {
			files = append(files, File{Name: f})
		}
		ch, err := choose(n, files)
		if want, ok := strings.CutPrefix(c.want, "error: "); ok {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q of %.20s…: error %v, want %q", c.quant+c.pattern, c.files, err, want)
			}
			continue
		}
		var got []string
		for _, f := range ch.files {
			got = append(got, f.Name)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q of %.20s…: %v, %v; want %s", c.quant+c.pattern, c.files, got, err, c.want)
		}
	}
}

func TestFromEnv(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(home, "tok"), "hf_path\n")
	write(filepath.Join(home, "h", "token"), "hf_home\n")
	for _, c := range []struct {
		env                    map[string]string
		endpoint, token, cache string
		offline                bool
		err                    string
	}{
		{nil, DefaultEndpoint, "", filepath.Join(home, ".cache", "huggingface", "hub"), false, ""},
		{map[string]string{"XDG_CACHE_HOME": filepath.Join(home, "x")}, DefaultEndpoint, "", filepath.Join(home, "x", "huggingface", "hub"), false, ""},
		{map[string]string{"HF_HOME": "~/h", "HF_HUB_OFFLINE": "1"}, DefaultEndpoint, "hf_home", filepath.Join(home, "h", "hub"), true, ""},
		{map[string]string{"HF_HOME": "~/h", "HF_TOKEN_PATH": "~/tok", "HF_HUB_CACHE": "/c", "HF_ENDPOINT": "http://mirror:80/"}, "http://mirror:80", "hf_path", "/c", false, ""},
		{map[string]string{"HF_HOME": "~/h", "HF_TOKEN": " hf_env ", "HF_HUB_OFFLINE": "FALSE"}, DefaultEndpoint, "hf_env", filepath.Join(home, "h", "hub"), false, ""},
		{env: map[string]string{"HF_ENDPOINT": "mirror"}, err: "HF_ENDPOINT"},
		{env: map[string]string{"HF_ENDPOINT": "ftp://mirror"}, err: "HF_ENDPOINT"},
		{env: map[string]string{"HF_HUB_OFFLINE": "maybe"}, err: "HF_HUB_OFFLINE"},
		{env: map[string]string{"HF_TOKEN": "hf_a\r\nX-Other: b"}, err: "character that no token has"},
	} {
		got, err := fromEnv(func(k string) string { return c.env[k] })
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "hf_a") {
				t.Errorf("%v: error %v", c.env, err)
			}
			continue
		}
		if err != nil || got.Endpoint != c.endpoint || got.Token != c.token || got.Cache != c.cache || got.Offline != c.offline {
			t.Errorf("%v: %+v, %v", c.env, got, err)
		}
	}
}

// A tokenizer needs no weights where these lie apart.
func TestTokenizerOnly(t *testing.T) {
	h := newFakeHub(t, map[string][]byte{"config.json": []byte("{}"), "tokenizer.json": []byte(`{"model":{}}`), "model.safetensors": noise(1000, 1)})
	c := h.client(t)
	s, err := c.Pull(t.Context(), Name{Repo: "org/model", Tokenizer: true})
	if err != nil || s.Model != s.Dir || len(s.Files) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := c.Find(Name{Repo: "org/model", Tokenizer: true}); err != nil {
		t.Error(err)
	}
	if _, err := c.Find(Name{Repo: "org/model"}); !isMissing(err) {
		t.Errorf("the weights are there: %v", err)
	}
	if s, err = c.Pull(t.Context(), Name{Repo: "org/model", Revision: "refs/pr/1"}); err != nil || s.Fetched != 1000 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := c.Find(Name{Repo: "org/model", Revision: "refs/pr/1"}); err != nil {
		t.Error(err)
	}
}
