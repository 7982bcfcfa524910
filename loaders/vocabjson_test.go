package loaders

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// byteJSON is a tokenizer.json with the 256 bytes, "ab" and "abcd", a special
// token and one that is not. The parts replace those of the same name.
func byteJSON(parts map[string]string) string {
	var vocab strings.Builder
	for b, r := range byteChars {
		fmt.Fprintf(&vocab, "%s:%d, ", strconv.Quote(string(r)), b)
	}
	all := map[string]string{
		"added_tokens": `[
			{"id":258,"content":"<|eot_id|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
			{"id":259,"content":"<tool>","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":false},
			{"id":260,"content":"<bos>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}]`,
		"normalizer": "null",
		"pre_tokenizer": `{"type":"Sequence","pretokenizers":[
			{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},
			{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}`,
		"post_processor": `{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",
			"single":[{"SpecialToken":{"id":"<bos>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
			"special_tokens":{"<bos>":{"id":"<bos>","ids":[260],"tokens":["<bos>"]}}}]}`,
		"model": `{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":"","fuse_unk":false,"ignore_merges":true,
			"vocab":{` + vocab.String() + `"ab":256,"abcd":257},"merges":["a b"]}`,
	}
	for k, v := range parts {
		all[k] = v
	}
	return `{"version":"1.0","truncation":null,"added_tokens":` + all["added_tokens"] + `,"normalizer":` + all["normalizer"] +
		`,"pre_tokenizer":` + all["pre_tokenizer"] + `,"post_processor":` + all["post_processor"] + `,"decoder":{"type":"ByteLevel"},"model":` + all["model"] + "}\n"
}

// charJSON is a tokenizer.json over characters, with the given steps.
func charJSON(normalizer, pre string) string {
	return `{"added_tokens":[{"id":0,"content":"<unk>","special":true},{"id":1,"content":"<s>","special":true}],
		"normalizer":` + normalizer + `,"pre_tokenizer":` + pre + `,"post_processor":null,
		"model":{"type":"BPE","unk_token":"<unk>","byte_fallback":true,
		"vocab":{"<unk>":0,"<s>":1,"<0xC3>":2,"<0xA9>":3,"\u2581":4,"a":5,"b":6,"\u2581a":7,"ab":8,"\u2581\u2581":9},
		"merges":[["\u2581","\u2581"],["\u2581","a"],["a","b"]]}}`
}

func parseJSON(t *testing.T, text string) *Tokenizer {
	t.Helper()
	v, err := parseTokenizerJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v.finish()
	tok, err := NewTokenizer(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestJSONByteLevel(t *testing.T) {
	tok := parseJSON(t, byteJSON(nil))
	special := EncodeOptions{AddSpecial: true, ParseSpecial: true}
	wantTexts(t, tok, "abcd abc<|eot_id|>", special, "<bos>", "abcd", "Ġ", "ab", "c", "<|eot_id|>")
	wantTexts(t, tok, "<tool>  a<bos", EncodeOptions{}, "<tool>", "a", "<", "b", "o", "s")
	if !tok.IsEOG(258) || tok.BOS() != 260 || tok.Vocab().Pre != "llama-bpe" || tok.Type(259) != TokenUserDefined {
		t.Errorf("vocabulary: eog %v, bos %d, pre %q", tok.Vocab().EOG, tok.BOS(), tok.Vocab().Pre)
	}

	nfc := parseJSON(t, byteJSON(map[string]string{"normalizer": `{"type":"NFC"}`,
		"added_tokens": `[{"id":258,"content":"e\u0301","normalized":true},{"id":259,"content":"o\u0301","normalized":false}]`, "post_processor": "null"}))
	if got := nfc.Encode("e\u0301", EncodeOptions{}); !slices.Equal(got, []int32{258}) {
		t.Errorf("token matched after NFC: got %v", got)
	}
	if got := nfc.Encode("\u00e9", EncodeOptions{}); !slices.Equal(got, []int32{258}) {
		t.Errorf("token matched in its NFC form: got %v", got)
	}
	if got := nfc.Encode("o\u0301\u00f3a\u0301", EncodeOptions{}); !slices.Equal(got, []int32{259, 0xc3, 0xb3, 0xc3, 0xa1}) {
		t.Errorf("token matched before NFC: got %v", got)
	}
	if got := tok.Encode("a\u0301", EncodeOptions{}); !slices.Equal(got, []int32{'a', 0xcc, 0x81}) {
		t.Errorf("NFC without being asked: got %v", got)
	}

	gpt2 := parseJSON(t, byteJSON(map[string]string{"pre_tokenizer": `{"type":"ByteLevel","add_prefix_space":true}`}))
	wantTexts(t, gpt2, "a", EncodeOptions{}, "Ġ", "a")
	wantTexts(t, gpt2, " a", EncodeOptions{}, "Ġ", "a")
	digits := parseJSON(t, byteJSON(map[string]string{"pre_tokenizer": `{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}]}`}))
	if digits.Vocab().Pre != "smollm" {
		t.Errorf("digits: pre %q", digits.Vocab().Pre)
	}
}

func TestJSONChars(t *testing.T) {
	const m, replace = spaceMark, `{"type":"Replace","pattern":{"String":" "},"content":"▁"}`
	gemma := parseJSON(t, charJSON(replace, `{"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false}`))
	wantTexts(t, gemma, "ab  aé<s>", EncodeOptions{}, "ab", m+m, "a", "<0xC3>", "<0xA9>", "<unk>", "<unk>", "<unk>")
	wantTexts(t, gemma, "a<s> a", EncodeOptions{ParseSpecial: true}, "a", "<s>", m+"a")

	llama := parseJSON(t, charJSON(`{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},`+replace+`]}`, "null"))
	wantTexts(t, llama, "ab<s>a", EncodeOptions{ParseSpecial: true}, m+"a", "b", "<s>", m+"a")
	wantTexts(t, llama, " a", EncodeOptions{}, m+m, "a")

	first := parseJSON(t, charJSON("null", `{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false}`))
	wantTexts(t, first, "ab<s>ab", EncodeOptions{ParseSpecial: true}, m+"a", "b", "<s>", "ab")
	wantTexts(t, first, " a", EncodeOptions{}, m+"a")
	words := parseJSON(t, charJSON("null", `{"type":"Metaspace","replacement":"▁","add_prefix_space":true}`))
	wantTexts(t, words, "a  a", EncodeOptions{}, m+"a", m, m+"a")
}

func TestJSONErrors(t *testing.T) {
	part := func(k, v string) string { return byteJSON(map[string]string{k: v}) }
	for text, want := range map[string]string{
		"":                   "offset 0",
		"[]":                 "offset 0",
		"{}":                 "model: missing",
		"{\"model\":1}":      "model object",
		"{\"a\":\"\n\"}":     "", // unread values are checked for their end only; model is missing
		byteJSON(nil)[:3000]: "end",
		byteJSON(nil) + "x":  "expected the end",
		part("model", `{"type":"Unigram","vocab":[["a",0]]}`):                                                 "Unigram",
		part("model", `{"type":"WordPiece","vocab":{"a":0}}`):                                                 "BPE",
		part("model", `{"type":"BPE","vocab":{},"merges":[]}`):                                                "", // the added tokens alone
		part("model", `{"type":"BPE","vocab":{"a":5,"b":5},"merges":[]}`):                                     "id 5",
		part("model", `{"type":"BPE","vocab":{"a":2000000000},"merges":[]}`):                                  "2000000000",
		part("model", `{"type":"BPE","vocab":{"a":99999999999},"merges":[]}`):                                 "token id",
		part("model", `{"type":"BPE","vocab":{"a":-1},"merges":[]}`):                                          "token id",
		part("model", `{"type":"BPE","vocab":{"a":0},"merges":[["a"]]}`):                                      "merge of 1",
		part("model", `{"type":"BPE","end_of_word_suffix":"</w>","vocab":{"a":0},"merges":[]}`):               "end_of_word_suffix",
		part("model", `{"type":"BPE","vocab":{"\ud800\q":0},"merges":[]}`):                                    "escape",
		part("added_tokens", `[{"id":-4,"content":"x"}]`):                                                     "id -4",
		part("normalizer", `{"type":"Lowercase"}`):                                                            "Lowercase",
		part("pre_tokenizer", `{"type":"Whitespace"}`):                                                        "Whitespace",
		part("pre_tokenizer", "null"):                                                                         "ByteLevel",
		part("post_processor", `{"type":"BertProcessing"}`):                                                   "TemplateProcessing",
		part("post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}]}`):        `"x"`,
		part("normalizer", strings.Repeat(`{"type":"Sequence","normalizers":[`, 90)+strings.Repeat("]}", 90)): "more than",
		part("pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\w+"},"behavior":"Isolated"},{"type":"ByteLevel","use_regex":false}]}`): "llama-bpe",
	} {
		v, err := parseTokenizerJSON([]byte(text))
		if err == nil {
			if want != "" {
				t.Errorf("%.80s: no error, expected %q", text, want)
			}
			v.finish()
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80s: error %q, expected %q in one line", text, err, want)
		}
	}
}

func TestTokenizerFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenTokenizer(dir); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("empty folder: %v", err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(byteJSON(nil)))
	z.Close()
	write("tokenizer.json.gz", packed.String())
	write("tokenizer_config.json", `{"bos_token":{"content":"<bos>","lstrip":false},"eos_token":"abcd","pad_token":null,"add_bos_token":false,"unk_token":"<nothing>",
		"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]}`)
	write("generation_config.json", `{"eos_token_id":[259, 257, 999],"suppress_tokens":[3]}`)
	tok := openTokenizer(t, dir)
	v := tok.Vocab()
	if v.BOS != 260 || v.EOS != 257 || v.AddBOS || v.ChatTemplate != "D" || v.PAD != -1 || v.UNK != -1 {
		t.Errorf("bos %d, eos %d, add bos %v, template %q", v.BOS, v.EOS, v.AddBOS, v.ChatTemplate)
	}
	if !slices.Equal(v.EOG, []int32{257, 258, 259}) || !slices.Equal(v.Suppress, []int32{3}) {
		t.Errorf("eog %v, suppressed %v", v.EOG, v.Suppress)
	}
	if len(v.Warnings) != 2 { // unk_token, 999
		t.Errorf("warnings %q", v.Warnings)
	}
	write("chat_template.jinja", "J")
	if tok := openTokenizer(t, filepath.Join(dir, "tokenizer.json.gz")); tok.Vocab().ChatTemplate != "J" {
		t.Errorf("template %q", tok.Vocab().ChatTemplate)
	}
	write("tokenizer_config.json", "{")
	if _, err := OpenTokenizer(dir); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json") {
		t.Errorf("broken configuration: %v", err)
	}
}

func FuzzTokenizerJSON(f *testing.F) {
	f.Add([]byte(byteJSON(nil)))
	f.Add([]byte(charJSON("null", `{"type":"Metaspace","replacement":"▁"}`)))
	f.Add([]byte(`{"model":{"vocab":{"\ud83d\ude00":0},"merges":[["a","b"]]}}`))
	f.Add([]byte(`{"pre_tokenizer":{"type":"Metaspace","replacement":"▁"},"model":{"vocab":{"":0},"merges":[["",""]]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseTokenizerJSON(data)
		if err != nil {
			return
		}
		v.finish()
		tok, err := NewTokenizer(v)
		if err != nil {
			return
		}
		ids := tok.Encode("ab <s>é\xff", EncodeOptions{AddSpecial: true, ParseSpecial: true})
		tok.Decode(ids, DecodeOptions{Special: true})
		// What the keys of a GGUF file say of it can be read again, or is told.
		meta := NewMetadata()
		v.put(meta, len(v.Tokens)+1)
		v.lostIn(meta)
		text, err := json.Marshal(v.json())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseTokenizerJSON(text); err != nil && !strings.Contains(err.Error(), "merges") && len(v.Merges) > 0 {
			t.Errorf("the vocabulary written again: %v", err)
		}
	})
}
