package loaders

import (
	"fmt"
	"slices"
)

// TokenType says what a token is, with the numbers of the GGUF key
// tokenizer.ggml.token_type.
type TokenType int32

const (
	TokenUndefined   TokenType = 0 // taken as TokenNormal
	TokenNormal      TokenType = 1 // a piece of text
	TokenUnknown     TokenType = 2 // stands for text that has no token
	TokenControl     TokenType = 3 // marks structure, is never text
	TokenUserDefined TokenType = 4 // text that is always one token
	TokenUnused      TokenType = 5 // a piece of text that training did not see
	TokenByte        TokenType = 6 // one byte, spelled <0x00> to <0xFF>
)

// Vocab is a vocabulary as a model file holds it, checked by the function that
// read it. It is data: NewTokenizer makes a tokenizer from it.
//
// Token ids are positions in Tokens; an id that the file does not name is -1.
type Vocab struct {
	// Model is the family: "llama" (pieces with scores, or with Merges by rank,
	// and byte tokens), "gpt2" (byte-level BPE) or "gemma4" (BPE over
	// characters, split at newline runs, and byte tokens).
	Model string
	// Pre names the pattern that splits text before merging. Only "gpt2" needs
	// it; see PreTokenizers for the names.
	Pre string

	Tokens []string    // text as the file spells it
	Scores []float32   // per token; empty if the family has none
	Types  []TokenType // per token
	Merges []string    // "left right", best first

	BOS, EOS, EOT, EOM, UNK, PAD int32

	AddBOS, AddEOS bool // EncodeOptions.AddSpecial puts BOS before, EOS after the text

	// AddSpacePrefix puts a space before the text and after each token that was
	// recognised in it as a whole. PrefixFirstOnly leaves out the second half,
	// PrefixUnlessSpace leaves out what already begins with a space.
	AddSpacePrefix, PrefixFirstOnly, PrefixUnlessSpace bool

	IgnoreMerges bool // a piece that is a token as it stands is not merged
	NFC          bool // text is brought to Unicode form NFC before it is split

	Added []AddedToken // matching rules of whole tokens that have any

	EOG      []int32 // all ids that end a generation, ascending
	Suppress []int32 // ids that sampling must not choose

	ChatTemplate string // Jinja source, empty if the file has none

	// Warnings tells what was found wrong or missing and which rule filled the
	// gap, one sentence each. Callers show them to the user once.
	Warnings []string
}

// AddedToken says how a control or user-defined token is matched in text.
type AddedToken struct {
	ID         int32
	LStrip     bool // takes the white space before it
	RStrip     bool // takes the white space after it
	SingleWord bool // only where no letter, digit or underscore touches it
	Normalized bool // matched after NFC, not before
}

// endNames are the spellings of tokens that end a turn or a text in published
// models. Files often name one of them as EOS and leave the others out. All begin
// with <.
var endNames = map[string]bool{
	"<|eot_id|>": true, "<|eom_id|>": true, "<|end_of_text|>": true, // Llama 3
	"<|im_end|>": true, "<|endoftext|>": true, // ChatML, GPT-2
	"<end_of_turn>": true,                           // Gemma 2 and 3
	"<turn|>":       true, "<|tool_response>": true, // Gemma 4
	"<|return|>": true, "<|call|>": true, // gpt-oss
	"<|end|>": true, // Phi 3; closes a message without ending the turn in gpt-oss
}

// warn records what a reader found and which rule it followed.
func (v *Vocab) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// finish completes a vocabulary that a reader filled: types where they are
// missing, byte tokens, ids by name, ends of generation. Rules, in this order:
//
//   - without types every token is normal, except that the ids named BOS, EOS,
//     EOT, EOM and PAD are control and UNK is unknown;
//   - a byte token is spelled <0x, two hexadecimal digits, >. Another spelling
//     makes it an ordinary token. In the families with byte tokens an ordinary
//     token so spelled is a byte token if the byte has none;
//   - of tokens with the same text the one with the lowest id is used for
//     encoding; all can be decoded;
//   - ends of generation are EOS, EOT, EOM, control tokens spelled <eos> or
//     </s>, and every token with a name of endNames. Those are control tokens whatever the file says, so that user
//     text cannot end a turn.
func (v *Vocab) finish() {
	if len(v.Types) == 0 {
		v.Types = make([]TokenType, len(v.Tokens))
		for _, id := range []int32{v.BOS, v.EOS, v.EOT, v.EOM, v.PAD} {
			if id >= 0 {
				v.Types[id] = TokenControl
			}
		}
		if v.UNK >= 0 {
			v.Types[v.UNK] = TokenUnknown
		}
	}
	for i, t := range v.Types {
		if t == TokenUndefined {
			v.Types[i] = TokenNormal
		}
	}
	v.finishBytes()
	v.finishNames()

	end := map[int32]bool{v.EOS: true, v.EOT: true, v.EOM: true}
	for _, id := range v.EOG {
		end[id] = true
	}
	harmony := false // gpt-oss: <|end|> closes a message, <|return|> the turn
	for i, text := range v.Tokens {
		if (text == "<eos>" || text == "</s>") && v.Types[i] == TokenControl {
			end[int32(i)] = true // in Gemma </s> is a markup tag, not control
		}
		if text == "" || text[0] != '<' || !endNames[text] { // all of them begin so
			continue
		}
		if v.Types[i] == TokenNormal || v.Types[i] == TokenUnused {
			v.warn("token %d, %s, is not marked as a control token; taken as one", i, text)
		}
		v.Types[i] = TokenControl
		end[int32(i)] = true
		harmony = harmony || text == "<|return|>"
	}
	v.EOG = v.EOG[:0]
	for id := range end {
		if id < 0 || harmony && v.Tokens[id] == "<|end|>" && id != v.EOS {
			continue
		}
		v.EOG = append(v.EOG, id)
	}
	slices.Sort(v.EOG)
	if len(v.EOG) == 0 {
		v.warn("no token ends a generation: no eos id and no token with a known name; generation stops at the length limit")
	}
	if v.AddBOS && v.BOS < 0 {
		v.warn("a bos token is to be added but none is named; none is added")
	}
	if v.AddEOS && v.EOS < 0 {
		v.warn("an eos token is to be added but none is named; none is added")
	}
}

// finishBytes settles which tokens stand for bytes.
func (v *Vocab) finishBytes() {
	var have [256]bool
	wrong := 0
	for i, t := range v.Types {
		if t != TokenByte {
			continue
		}
		b, ok := byteToken(v.Tokens[i])
		if !ok || v.Model == "gpt2" {
			v.Types[i] = TokenNormal
			wrong++
			continue
		}
		have[b] = true
	}
	if wrong > 0 {
		v.warn("%d byte tokens are not spelled <0x00> to <0xFF>, or belong to a byte-level vocabulary; taken as ordinary text", wrong)
	}
	if v.Model == "gpt2" {
		return
	}
	for i, t := range v.Types {
		if t != TokenNormal {
			continue
		}
		if b, ok := byteToken(v.Tokens[i]); ok && !have[b] {
			v.Types[i], have[b] = TokenByte, true
		}
	}
}

// finishNames finds ids that files leave out by the names of their tokens, and
// counts texts that occur twice.
func (v *Vocab) finishNames() {
	seen := newTextTable(v.Tokens)
	twice := 0
	for i, text := range v.Tokens {
		if seen.add(int32(i)) != int32(i) {
			if text != "" {
				twice++
			}
			continue
		}
		if v.UNK < 0 && v.Types[i] == TokenUnknown {
			v.UNK = int32(i)
		}
	}
	if twice > 0 {
		v.warn("%d tokens repeat the text of an earlier one; text is encoded with the lowest id", twice)
	}
	for name, id := range map[string]*int32{"<|eot_id|>": &v.EOT, "<|eom_id|>": &v.EOM} {
		if i, ok := seen.find(name); ok && *id < 0 && v.isWhole(i) {
			*id = i
		}
	}
}

// isWhole reports whether the token can be recognised in text as a whole.
func (v *Vocab) isWhole(id int32) bool {
	t := v.Types[id]
	return t == TokenControl || t == TokenUserDefined || t == TokenUnknown
}

// isPiece reports whether merging may make the token out of text.
func (v *Vocab) isPiece(id int32) bool {
	t := v.Types[id]
	return t == TokenNormal || t == TokenUserDefined || t == TokenUnused
}

// byteToken returns the byte that a token spelled <0xHH> stands for.
func byteToken(text string) (b byte, ok bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	hi, lo := hexDigit(text[3]), hexDigit(text[4])
	if hi < 0 || lo < 0 {
		return 0, false
	}
	return byte(hi<<4 | lo), true
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
