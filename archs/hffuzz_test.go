package archs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"graphrun/archs"
	"graphrun/loaders"
)

// FuzzConfig opens any config.json, beside the weights of the architecture it
// names. What opens has a graph; what does not is refused as the file's fault or
// as something that is not supported.
func FuzzConfig(f *testing.F) {
	dirs := map[string]string{}
	for _, name := range []string{"llama-moe", "llama-yarn", "qwen2", "qwen3", "gemma2", "gemma3", "gemma4-moe", "gptoss-mxfp4"} {
		dir := folderOf(f, name).write(f)
		config, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(config)
		arch, err := loaders.DetectFile(dir)
		if err != nil {
			f.Fatal(err)
		}
		dirs[arch] = dir
	}
	f.Add([]byte(`{"model_type": "gemma3", "text_config": {"hidden_size": 64, "rope_parameters": {"full_attention": {"rope_theta": 1e6, "rope_type": "linear", "factor": 8}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := loaders.ParseHFConfig("config.json", data)
		if err != nil {
			if !errors.Is(err, loaders.ErrFormat) {
				t.Errorf("%v is not ErrFormat", err)
			}
			return
		}
		arch, err := loaders.Detect(c)
		if err != nil {
			return
		}
		if err := os.WriteFile(filepath.Join(dirs[arch], "config.json"), data, 0o666); err != nil {
			t.Fatal(err)
		}
		if found, err := loaders.DetectFile(dirs[arch]); err != nil || found != arch {
			t.Errorf("the file is %q (%v), parsed it is %q", found, err, arch)
		}
		for _, gguf := range []bool{false, true} {
			m, err := loaders.OpenHF(dirs[arch], loaders.HFOptions{GGUF: gguf})
			if err != nil {
				if !errors.Is(err, loaders.ErrFormat) && !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("%v is neither ErrFormat nor ErrUnsupported", err)
				}
				continue
			}
			if a, err := archs.Load(m); err == nil {
				if _, err := a.Graph(archs.GraphOptions{}); err != nil {
					t.Errorf("loads, but has no graph: %v", err)
				}
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
