package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"graphrun/chat"
	"graphrun/loaders"
)

func templateCmd() *cobra.Command {
	var input, name string
	cmd := &cobra.Command{
		Use:   "template (MODEL | FILE.jinja) [--input FILE]",
		Short: "Render a chat template",
		Long: `template prints exactly what a model's chat template makes of a conversation.
The template is that of a GGUF file, of a tokenizer.json or of the folder that
holds one, or a .jinja file.

The input is a JSON object with the variables of the template: messages, tools,
add_generation_prompt, bos_token, eos_token, and whatever else it reads. Where
the template belongs to a model, its bos_token and eos_token are used unless the
input has others. A string strftime_now is what the function of this name
returns. When the template raises an error, its message is printed and the exit
code is 1.`,
		Example: `  echo '{"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": true}' | graphrun template model.gguf`,
		Args:    args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := modelPath(cmd, args[0])
			if err != nil {
				return err
			}
			t, extra, err := openTemplate(path, name)
			if err != nil {
				return err
			}
			var data []byte
			switch {
			case input != "" && input != "-":
				data, err = readInput(cmd, input)
			case inputIsTerminal(cmd):
				return usagef("no input: give a file by --input or a JSON object on standard input")
			default:
				data, err = readInput(cmd, "-")
			}
			if err != nil {
				return err
			}
			out, err := t.RenderJSON(withDefaults(data, extra))
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), out)
			return err
		},
	}
	cmd.Flags().StringVarP(&input, "input", "i", "", "JSON file with the variables; - or nothing is standard input")
	cmd.Flags().StringVar(&name, "name", "", "which template, of a model that has several, such as tool_use")
	return cmd
}

// variable is a template variable as JSON.
type variable struct{ name, json string }

// openTemplate finds the template at path and the variables that come with it.
func openTemplate(path, name string) (*chat.Template, []variable, error) {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".jinja", ".jinja2", ".j2":
		t, err := chat.ReadTemplate(path)
		return t, nil, err
	case ".gguf":
		m, err := loaders.Open(path)
		if err != nil {
			return nil, nil, err
		}
		defer m.Close()
		t, err := chat.ModelTemplate(m.Meta, path, name)
		if err != nil {
			return nil, nil, err
		}
		v, err := loaders.VocabFromGGUF(m.Meta, path)
		if err != nil {
			return nil, nil, err
		}
		return t, vocabVariables(v), nil
	}
	v, err := loaders.OpenVocab(path)
	if err != nil {
		return nil, nil, err
	}
	if v.ChatTemplate == "" {
		return nil, nil, fmt.Errorf("%s: %w", path, chat.ErrNoTemplate)
	}
	if name != "" {
		return nil, nil, errors.New("--name is for GGUF files with several templates")
	}
	t, err := chat.ParseTemplate(path, v.ChatTemplate)
	return t, vocabVariables(v), err
}

func vocabVariables(v *loaders.Vocab) []variable {
	var out []variable
	for _, x := range []struct {
		name string
		id   int32
	}{{"bos_token", v.BOS}, {"eos_token", v.EOS}} {
		if x.id >= 0 {
			b, _ := json.Marshal(v.Tokens[x.id])
			out = append(out, variable{x.name, string(b)})
		}
	}
	return out
}

// withDefaults adds variables to a JSON object before its own, so that those
// count.
func withDefaults(object []byte, extra []variable) []byte {
	text := strings.TrimSpace(string(object))
	rest, ok := strings.CutPrefix(text, "{")
	if !ok {
		return object
	}
	var b strings.Builder
	b.WriteByte('{')
	empty := strings.HasPrefix(strings.TrimSpace(rest), "}")
	for i, v := range extra {
		fmt.Fprintf(&b, "%q:%s", v.name, v.json)
		if i+1 < len(extra) || !empty {
			b.WriteByte(',')
		}
	}
	b.WriteString(rest)
	return []byte(b.String())
}
