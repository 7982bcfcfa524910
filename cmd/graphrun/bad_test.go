package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"graphrun/internal/shared"
)

// badFiles says what the refusal of each malformed golden file speaks of; ""
// is a file that may be used.
var badFiles = map[string]string{
	"valid-control":             "",
	"wrong-magic":               `magic is "GGML"`,
	"magic-reversed":            `magic is "FUGG"`,
	"version-1":                 "version 1",
	"version-99":                "version 99",
	"big-endian":                "big-endian",
	"nkv-huge":                  "number of metadata entries 4611686018427387904",
	"ntensors-huge":             "number of tensors 4611686018427387904",
	"nkv-too-many":              "name: string length 3377699720527872",
	"key-length-beyond-file":    "key: string length 1099511627776",
	"string-length-beyond-file": "key x.y: string length 9223372036854775807",
	"duplicate-key":             "key llama.block_count: appears twice",
	"unknown-value-type":        "key x.y: value type 77",
	"nested-array-deep":         "key x.y: arrays nest",
	"array-length-overflow":     "key x.y: array length 2305843009213693952",
	"dims-product-overflow":     "token_embd.weight: shape [8589934592 8589934592]",
	"ndims-5":                   "token_embd.weight: 5 dimensions, expected 1 to 4",
	"ndims-huge":                "token_embd.weight: 4294967295 dimensions, expected 1 to 4",
	"dim-zero":                  "token_embd.weight: dimension 1 is 0",
	"unknown-ggml-type":         "token_embd.weight: tensor type 250 is not supported; supported:",
	"removed-ggml-type":         "token_embd.weight: tensor type 4 (Q4_2, removed",
	"row-not-block-multiple":    "token_embd.weight: row length 8 is not a multiple of the 32",
	"offset-not-aligned":        "blk.0.attn_norm.weight: offset 385",
	"offset-beyond-eof":         "output.weight: needs 384 bytes at offset 1099511627776",
	"overlapping-tensors":       "blk.0.attn_q.weight: overlaps tensor token_embd.weight",
	"alignment-0":               "key general.alignment: found u32 0",
	"alignment-7":               "key general.alignment: found u32 7",
	"alignment-string":          `key general.alignment: found string "32"`,
	"no-architecture":           "key general.architecture: missing",
	"unknown-architecture":      `unknown architecture "nosuch"`,
	"no-block-count":            "key llama.block_count: missing",
	"no-embedding-length":       "key llama.embedding_length: missing",
	"block-count-string":        `key llama.block_count: found string "1", expected an integer`,
	"zero-heads":                "key llama.attention.head_count: found 0, expected a number from 1",
	"heads-not-dividing":        "key llama.attention.head_count: found u32 3, expected a divisor",
	"wrong-shape":               "tensor blk.0.attn_q.weight: found shape [6,8], expected [HK,D] = [8,8]",
	"missing-tensor":            "tensor blk.0.ffn_down.weight: missing",
	"truncated-data":            "blk.0.ffn_down.weight: needs 256 bytes",
	"truncated-metadata":        "number of tensors 12 is more than the 284 bytes",
	"nan-scales":                "",
	"empty-file":                "file is empty",
	"magic-only":                "version: 4 bytes needed",
	"tokenizer-no-tokens":       "key tokenizer.ggml.tokens: found 0 tokens",
	"scores-length-mismatch":    "key tokenizer.ggml.scores: found 5 entries, expected one for each of 12",
	"bos-out-of-range":          "key tokenizer.ggml.bos_token_id: found 4000000, expected a token from 0 to 11",
	"duplicate-tokens":          "",
	"context-length-0":          "key llama.context_length: found 0",
	"rope-dim-odd":              "key llama.rope.dimension_count: found 7",
	"eps-nan":                   "key llama.attention.layer_norm_rms_epsilon: found NaN",
	"vocab-size-mismatch":       "",
}

// badVerbs are the command lines that each malformed file is given to.
var badVerbs = [][]string{{"inspect"}, {"run", "hi", "-n", "3"}, {"--dump"}, {"--dump=summary"}, {"logits", "--tokens", "1,2", "-o", "DIR/out"}}

// A malformed file is refused by one line that names file and field, below a
// second and 64 MB. Where the list allows it to be used, using it does not panic.
func TestBadFiles(t *testing.T) {
	dir := shared.Path(t, "golden", "bad", "gguf")
	var list []struct{ File, What, Expect string }
	readJSON(t, dir+".json", &list)
	if len(list) < len(badFiles) {
		t.Errorf("%d files, want %d", len(list), len(badFiles))
	}
	for _, c := range list {
		name := strings.TrimSuffix(c.File, ".gguf")
		field, ok := badFiles[name]
		if !ok {
			t.Errorf("%s (%s) is not in the table", name, c.What)
			continue
		}
		if (field == "") != (c.Expect != "error") && c.Expect != "error_or_ok" {
			t.Errorf("%s: expected %s, the table has %q", name, c.Expect, field)
		}
		path := filepath.Join(dir, c.File)
		for _, verb := range badVerbs {
			out := t.TempDir()
			args := append([]string{verb[0], path}, verb[1:]...)
			for i := range args {
				args[i] = strings.Replace(args[i], "DIR", out, 1)
			}
			cheap(t, args, func() {
				if field != "" {
					refused(t, exitFailed, args, path, field)
					return
				}
				r := cli(t, "", args...)
				if r.code > exitFailed || strings.Contains(r.err, "panic") || r.code == exitFailed && !strings.Contains(r.err, "graphrun: ") {
					t.Errorf("%v: exit %d, %s", args, r.code, r.err)
				}
				if c.Expect == "ok" && r.code != 0 {
					t.Errorf("%v: exit %d, %s", args, r.code, r.err)
				}
				if names := left(t, out); r.code != 0 && len(names) > 0 {
					t.Errorf("%v: left behind %v", args, names)
				}
			})
			if names := left(t, out); field != "" && len(names) > 0 {
				t.Errorf("%v: left behind %v", args, names)
			}
		}
	}
}

// cheap fails the test when run takes a second or allocates 64 MB. A machine
// busy with other things gets a second chance.
func cheap(t *testing.T, args []string, run func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	run()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if took > time.Second {
		start = time.Now()
		run()
		took = time.Since(start)
	}
	if took > time.Second {
		t.Errorf("%v took %v", args, took)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%v allocated %d MB", args, n>>20)
	}
}

// --check names the tensor whose numbers are no numbers.
func TestCheckNamesTensor(t *testing.T) {
	path := shared.Path(t, "golden", "bad", "gguf", "nan-scales.gguf")
	refused(t, exitFailed, []string{"run", path, "hi", "--check"}, path, "tensor blk.0.ffn_down.weight", "block")
	refused(t, exitFailed, []string{"run", path, "hi"}, "non-finite")
}

// A malformed safetensors file is refused by one line that names it, below a
// second and 64 MB, by itself and as the weights of a model.
func TestBadSafetensors(t *testing.T) {
	dir := shared.Path(t, "golden", "bad", "safetensors")
	config, err := os.ReadFile(shared.Path(t, "golden", "hf", "llama3-tied", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Folder, What, Expect string
		Files                []string
	}
	readJSON(t, dir+".json", &list)
	if len(list) < 23 {
		t.Errorf("%d folders, want 23", len(list))
	}
	for _, c := range list {
		path := filepath.Join(dir, c.Folder)
		model := t.TempDir()
		for name, data := range map[string][]byte{"config.json": config} {
			if err := os.WriteFile(filepath.Join(model, name), data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range c.Files {
			data, err := os.ReadFile(filepath.Join(path, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(model, name), data, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		cheap(t, []string{"inspect", path}, func() {
			if c.Expect == "ok" {
				must(t, "inspect", path)
			} else {
				refused(t, exitFailed, []string{"inspect", path}, "safetensors: ", path)
			}
		})
		for _, verb := range badVerbs[1:] {
			out := t.TempDir()
			args := append([]string{verb[0], model}, verb[1:]...)
			for i := range args {
				args[i] = strings.Replace(args[i], "DIR", out, 1)
			}
			cheap(t, args, func() { refused(t, exitFailed, args, model) })
			if names := left(t, out); len(names) > 0 {
				t.Errorf("%v: left behind %v", args, names)
			}
			args[1] = path // without config.json
			refused(t, exitFailed, args, path, "config.json")
		}
		for _, to := range []string{"out.gguf", "out"} {
			refused(t, exitFailed, []string{"convert", model, filepath.Join(t.TempDir(), to)}, model)
		}
	}
}
