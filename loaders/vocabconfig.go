package loaders

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// maxTokenizerConfig bounds the bytes of files beside a tokenizer; published
// ones have 1 MB at most.
const maxTokenizerConfig = 64 << 20

// hfConfig is what a tokenizer needs of tokenizer_config.json.
type hfConfig struct {
	BOS      hfToken    `json:"bos_token"`
	EOS      hfToken    `json:"eos_token"`
	UNK      hfToken    `json:"unk_token"`
	PAD      hfToken    `json:"pad_token"`
	AddBOS   *bool      `json:"add_bos_token"`
	AddEOS   *bool      `json:"add_eos_token"`
	Template hfTemplate `json:"chat_template"`
}

// hfToken is a token's text, given as such or as an object with a content.
type hfToken string

// UnmarshalJSON reads either form; null is the empty text.
func (t *hfToken) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return json.Unmarshal(data, (*string)(t))
	}
	var object struct {
		Content string `json:"content"`
	}
	err := json.Unmarshal(data, &object)
	*t = hfToken(object.Content)
	return err
}

// hfTemplate is a chat template, given as such or in a list of named ones, of
// which "default" counts.
type hfTemplate string

// UnmarshalJSON reads either form.
func (t *hfTemplate) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, (*string)(t))
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, named := range list {
		if named.Name == "default" {
			*t = hfTemplate(named.Template)
		}
	}
	return nil
}

// hfIDs is a list of ids; a single one may stand without brackets.
type hfIDs []int32

// UnmarshalJSON reads either form.
func (ids *hfIDs) UnmarshalJSON(data []byte) error {
	if data[0] == '[' || string(data) == "null" {
		return json.Unmarshal(data, (*[]int32)(ids))
	}
	*ids = make(hfIDs, 1)
	return json.Unmarshal(data, &(*ids)[0])
}

// readConfigs reads the files beside a tokenizer.json.
func (v *Vocab) readConfigs(path string) error {
	base, ok := strings.CutSuffix(strings.TrimSuffix(path, ".gz"), "tokenizer.json")
	if !ok {
		return nil
	}
	return v.readConfigsAt(base)
}

// readConfigsAt reads the files whose names begin with base.
func (v *Vocab) readConfigsAt(base string) error {
	var config hfConfig
	if err := readConfig(base+"tokenizer_config.json", &config); err != nil {
		return err
	}
	for _, k := range []struct {
		key  string
		text hfToken
		id   *int32
	}{
		{"bos_token", config.BOS, &v.BOS},
		{"eos_token", config.EOS, &v.EOS},
		{"unk_token", config.UNK, &v.UNK},
		{"pad_token", config.PAD, &v.PAD},
	} {
		if k.text == "" {
			continue
		}
		id := slices.Index(v.Tokens, string(k.text))
		if id < 0 {
			v.warn("%s %s of tokenizer_config.json is no token; taken as absent", k.key, quoteText(string(k.text)))
			continue
		}
		*k.id = int32(id)
	}
	if config.AddBOS != nil {
		v.AddBOS = *config.AddBOS
	}
	if config.AddEOS != nil {
		v.AddEOS = *config.AddEOS
	}
	v.ChatTemplate = string(config.Template)
	var beside struct { // of models that also take images
		Template hfTemplate `json:"chat_template"`
	}
	if err := readConfig(base+"chat_template.json", &beside); err != nil {
		return err
	}
	if beside.Template != "" {
		v.ChatTemplate = string(beside.Template)
	}
	if text, err := os.ReadFile(base + "chat_template.jinja"); err == nil {
		v.ChatTemplate = string(text)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return v.readGeneration(base + "generation_config.json")
}

// readGeneration adds the ids of generation_config.json: its eos_token_id lists
// the ends of turns that eos_token leaves out.
func (v *Vocab) readGeneration(file string) error {
	var config struct {
		BOS      hfIDs `json:"bos_token_id"`
		EOS      hfIDs `json:"eos_token_id"`
		Suppress hfIDs `json:"suppress_tokens"`
	}
	if err := readConfig(file, &config); err != nil {
		return err
	}
	valid := func(ids hfIDs) (out []int32) {
		for _, id := range ids {
			if id >= 0 && int(id) < len(v.Tokens) {
				out = append(out, id)
			} else {
				v.warn("generation_config.json names token %d, outside the %d tokens; left out", id, len(v.Tokens))
			}
		}
		return out
	}
	v.EOG = append(v.EOG, valid(config.EOS)...)
	v.Suppress = append(v.Suppress, valid(config.Suppress)...)
	if bos := valid(config.BOS); v.BOS < 0 && len(bos) == 1 {
		v.BOS = bos[0]
	}
	if v.EOS < 0 && len(v.EOG) > 0 {
		v.EOS = v.EOG[0]
	}
	return nil
}

// readConfig decodes a file, if it is there, into a value.
func readConfig(file string, into any) error {
	st, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() || st.Size() > maxTokenizerConfig {
		return &FormatError{Format: "tokenizer", File: file, Err: fmt.Errorf("found %d bytes, expected a file of at most %d", st.Size(), maxTokenizerConfig)}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &FormatError{Format: "tokenizer", File: file, Err: jsonError(err)}
	}
	return nil
}
