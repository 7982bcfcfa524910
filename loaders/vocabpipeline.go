package loaders

import (
	"encoding/json"
	"fmt"
	"strings"
)

// hfStep is one normalizer, pre-tokenizer or post-processor, all kinds of them
// in one: Type says which fields count.
type hfStep struct {
	Type          string            `json:"type"`
	Normalizers   []json.RawMessage `json:"normalizers"`
	Pretokenizers []json.RawMessage `json:"pretokenizers"`
	Processors    []json.RawMessage `json:"processors"`

	Pattern struct {
		String string `json:"String"`
		Regex  string `json:"Regex"`
	} `json:"pattern"`
	Content  string `json:"content"`  // Replace
	Prepend  string `json:"prepend"`  // Prepend
	Behavior string `json:"behavior"` // Split
	Invert   bool   `json:"invert"`

	AddPrefixSpace   *bool  `json:"add_prefix_space"` // ByteLevel, Metaspace
	UseRegex         *bool  `json:"use_regex"`        // ByteLevel
	IndividualDigits bool   `json:"individual_digits"`
	Replacement      string `json:"replacement"` // Metaspace
	PrependScheme    string `json:"prepend_scheme"`
	SplitWords       *bool  `json:"split"`

	Single        []hfTemplatePart         `json:"single"` // TemplateProcessing
	SpecialTokens map[string]hfTemplateIDs `json:"special_tokens"`
}

type hfTemplatePart struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

type hfTemplateIDs struct {
	IDs []int32 `json:"ids"`
}

// hfPatterns maps the splitting expressions of published tokenizer.json files
// to the names of preTokenizers. The same pattern is written in several ways.
var hfPatterns = map[string]string{
	`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`: "gpt-2",

	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                              "llama-bpe",
	`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "llama-bpe",

	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                              "qwen2",
	`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "qwen2",

	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "qwen35",

	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "gpt-4o",
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                "tekken",
}

// maxSteps bounds nested and long sequences; published files have four at most.
const maxSteps = 64

// steps decodes one step, or the steps of a Sequence in a row.
func steps(part string, raw []byte) (out []hfStep, err error) {
	queue := []json.RawMessage{raw}
	for n := 0; len(queue) > 0; n++ {
		if n == maxSteps {
			return nil, fmt.Errorf("%s: found more than %d steps", part, maxSteps)
		}
		raw, queue = queue[0], queue[1:]
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		var s hfStep
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", part, jsonError(err))
		}
		if s.Type == "Sequence" {
			inner := append(append(s.Normalizers, s.Pretokenizers...), s.Processors...)
			queue = append(inner, queue...)
			continue
		}
		out = append(out, s)
	}
	return out, nil
}

func unknownStep(part, name string, known ...string) error {
	return fmt.Errorf("%s: %w", part, &UnsupportedError{What: "step", Name: name, Known: known})
}

// pipeline recognises the steps around the model and sets what they imply.
func (f *hfFile) pipeline(v *Vocab) error {
	normalizers, err := steps("normalizer", f.normalizer)
	if err != nil {
		return err
	}
	marks := false // spaces become U+2581
	for _, s := range normalizers {
		switch {
		case s.Type == "NFC":
			v.NFC = true
		case s.Type == "Replace" && s.Pattern.String == " " && s.Content == spaceMark:
			marks = true
		case s.Type == "Prepend" && s.Prepend == spaceMark:
			v.AddSpacePrefix = true
		default:
			return unknownStep("normalizer", quoteName(s.Type), "NFC", `Replace " " by "▁"`, `Prepend "▁"`)
		}
	}
	pre, err := steps("pre_tokenizer", f.pre)
	if err != nil {
		return err
	}
	if n := len(pre); n > 0 && pre[n-1].Type == "ByteLevel" {
		err = v.byteLevel(pre[:n-1], pre[n-1])
	} else {
		err = v.charLevel(pre, marks)
	}
	if err != nil {
		return err
	}
	post, err := steps("post_processor", f.post)
	if err != nil {
		return err
	}
	for _, s := range post {
		switch s.Type {
		case "ByteLevel": // moves offsets only
		case "TemplateProcessing":
			if err := v.template(s); err != nil {
				return err
			}
		default:
			return unknownStep("post_processor", quoteName(s.Type), "ByteLevel", "TemplateProcessing")
		}
	}
	return nil
}

// byteLevel recognises the splitting pattern of a byte-level vocabulary.
func (v *Vocab) byteLevel(split []hfStep, last hfStep) error {
	v.Model = "gpt2"
	if last.AddPrefixSpace == nil || *last.AddPrefixSpace {
		v.AddSpacePrefix, v.PrefixUnlessSpace = true, true
	}
	ownPattern := last.UseRegex == nil || *last.UseRegex // of ByteLevel: gpt-2's
	switch {
	case len(split) == 0 && ownPattern:
		v.Pre = "gpt-2"
	case len(split) == 1 && split[0].Type == "Digits" && split[0].IndividualDigits && ownPattern:
		v.Pre = "smollm"
	case len(split) == 1 && split[0].Type == "Split" && !ownPattern:
		s := split[0]
		// The pieces are what matches, kept apart, or what does not, removed.
		behavior := strings.ToLower(s.Behavior)
		if !(behavior == "isolated" && !s.Invert) && !(behavior == "removed" && s.Invert) {
			return unknownStep("pre_tokenizer", "Split with behavior "+quoteName(s.Behavior), "Isolated")
		}
		name, ok := hfPatterns[s.Pattern.Regex]
		if !ok {
			return fmt.Errorf("pre_tokenizer: %w", &UnsupportedError{
				What: "pattern", Name: quoteText(s.Pattern.Regex), Known: []string{"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken"}})
		}
		v.Pre = name
	default:
		names := make([]string, len(split))
		for i, s := range split {
			names[i] = s.Type
		}
		return unknownStep("pre_tokenizer", quoteName(strings.Join(append(names, last.Type), "+")),
			"ByteLevel", "Digits+ByteLevel", "Split+ByteLevel without a pattern of its own")
	}
	return nil
}

// newlineRuns is the pattern of vocabularies of the family gemma4.
const newlineRuns = `[^\n]+|\n+`

// charLevel recognises the steps of a vocabulary whose spaces are U+2581.
func (v *Vocab) charLevel(pre []hfStep, marks bool) error {
	v.Model = "llama"
	for _, s := range pre {
		switch {
		case s.Type == "Split" && s.Pattern.String == " " && marks:
			// Gemma: no space is left to split at.
		case s.Type == "Split" && s.Pattern.Regex == newlineRuns && marks && strings.ToLower(s.Behavior) == "isolated":
			v.Model = "gemma4"
		case s.Type == "Metaspace" && s.Replacement == spaceMark && !marks:
			marks = true
			scheme := s.PrependScheme
			if scheme == "" && (s.AddPrefixSpace == nil || *s.AddPrefixSpace) {
				scheme = "always"
			}
			v.AddSpacePrefix, v.PrefixUnlessSpace = scheme == "always" || scheme == "first", true
			v.PrefixFirstOnly = scheme == "first"
			if s.SplitWords == nil || *s.SplitWords {
				v.Pre = preEachWord
			}
		default:
			return unknownStep("pre_tokenizer", quoteName(s.Type), "ByteLevel", "Metaspace", `Split at " " after Replace`)
		}
	}
	if !marks {
		return unknownStep("pre_tokenizer", "none", "ByteLevel", "Metaspace", `a normalizer that replaces " " by "▁"`)
	}
	if len(v.Merges) == 0 && v.hasWords() {
		return fmt.Errorf("model: merges: missing, expected the merges of the vocabulary")
	}
	return nil
}

// template reads which tokens the post-processor adds to a text.
func (v *Vocab) template(s hfStep) error {
	before := true
	for _, part := range s.Single {
		if part.SpecialToken == nil {
			before = false
			continue
		}
		ids := s.SpecialTokens[part.SpecialToken.ID].IDs
		if len(ids) != 1 || ids[0] < 0 || int(ids[0]) >= len(v.Tokens) {
			return fmt.Errorf("post_processor: token %s has ids %v, expected one of the %d tokens", quoteText(part.SpecialToken.ID), ids, len(v.Tokens))
		}
		switch {
		case before && !v.AddBOS:
			v.AddBOS, v.BOS = true, ids[0]
		case !before && !v.AddEOS:
			v.AddEOS, v.EOS = true, ids[0]
		default:
			return fmt.Errorf("post_processor: found two tokens on one side of the text, expected at most one")
		}
	}
	return nil
}
