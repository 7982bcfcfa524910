package loaders

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxSPM bounds the bytes of a tokenizer.model; published ones have 4 MB.
const maxSPM = 64 << 20

// VocabFromSPM reads a tokenizer.model, the form of SentencePiece, and what lies
// beside it, as VocabFromJSON does. Tokens that tokenizer_config.json adds are
// added. Only models of type BPE that leave text as it is are read; the others
// would need another algorithm.
//
// BOS is added, EOS not, unless tokenizer_config.json says otherwise.
func VocabFromSPM(path string) (*Vocab, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Size() > maxSPM {
		return nil, &FormatError{Format: "tokenizer", File: path, Err: fmt.Errorf("found %d bytes, expected at most %d", st.Size(), maxSPM)}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v, err := parseSPM(data)
	if err != nil {
		return nil, &FormatError{Format: "tokenizer", File: path, Err: err}
	}
	base := strings.TrimSuffix(path, "tokenizer.model")
	if err := v.readAdded(base); err != nil {
		return nil, err
	}
	if err := v.readConfigsAt(base); err != nil {
		return nil, err
	}
	v.finish()
	return v, nil
}

// protoReader walks through the fields of a protocol buffer.
type protoReader struct{ data []byte }

// next returns the number of the next field and its value: an integer, the four
// bytes of a float, or bytes. At the end the number is 0.
func (r *protoReader) next() (field int, num uint64, bytes []byte, err error) {
	if len(r.data) == 0 {
		return 0, 0, nil, nil
	}
	tag, err := r.varint()
	if err != nil {
		return 0, 0, nil, err
	}
	if tag>>3 == 0 || tag>>3 > 1<<29 {
		return 0, 0, nil, fmt.Errorf("found field number %d, expected 1 to 2^29", tag>>3)
	}
	switch tag & 7 {
	case 0:
		num, err = r.varint()
	case 1, 5:
		n := 4 + 4*int(tag&7%5)
		if len(r.data) < n {
			return 0, 0, nil, errProtoCut
		}
		if n == 4 {
			num = uint64(binary.LittleEndian.Uint32(r.data))
		}
		r.data = r.data[n:]
	case 2:
		var n uint64
		if n, err = r.varint(); err == nil && n > uint64(len(r.data)) {
			err = errProtoCut
		}
		if err == nil {
			bytes, r.data = r.data[:n:n], r.data[n:]
		}
	default:
		err = fmt.Errorf("found wire type %d, expected 0, 1, 2 or 5", tag&7)
	}
	return int(tag >> 3), num, bytes, err
}

var errProtoCut = errors.New("ends inside a field: cut short, or no SentencePiece model")

func (r *protoReader) varint() (uint64, error) {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		return 0, errProtoCut
	}
	r.data = r.data[size:]
	return n, nil
}

// eachField calls member for all fields of a message.
func eachField(data []byte, member func(field int, num uint64, bytes []byte) error) error {
	r := protoReader{data}
	for {
		field, num, bytes, err := r.next()
		if err != nil || field == 0 {
			return err
		}
		if err := member(field, num, bytes); err != nil {
			return err
		}
	}
}

// parseSPM reads a SentencePiece model. Field numbers are those of
// sentencepiece_model.proto.
func parseSPM(data []byte) (*Vocab, error) {
	if err := checkForeign(data); err != nil {
		return nil, err
	}
	v := &Vocab{Model: "llama", BOS: -1, EOS: -1, EOT: -1, EOM: -1, UNK: -1, PAD: -1, AddBOS: true, AddSpacePrefix: true}
	kind, collapse, charsmap := uint64(1), true, 0
	ids := map[int]int32{40: 0, 41: 1, 42: 2, 43: -1} // defaults of the format
	err := eachField(data, func(field int, _ uint64, b []byte) error {
		switch field {
		case 1:
			return v.addPiece(b)
		case 2: // trainer
			return eachField(b, func(field int, num uint64, _ []byte) error {
				switch field {
				case 3:
					kind = num
				case 40, 41, 42, 43:
					ids[field] = int32(num)
				}
				return nil
			})
		case 3: // normalizer
			return eachField(b, func(field int, num uint64, b []byte) error {
				switch field {
				case 2:
					charsmap = len(b)
				case 3:
					v.AddSpacePrefix = num != 0
				case 4:
					collapse = num != 0
				}
				return nil
			})
		}
		return nil
	})
	names := []string{"", "unigram", "BPE", "word", "char"}
	switch {
	case err != nil:
		return nil, err
	case len(v.Tokens) == 0:
		return nil, errors.New("found no tokens; the file is no SentencePiece model")
	case kind != 2:
		return nil, &UnsupportedError{What: "SentencePiece model", Name: names[kind%uint64(len(names))], Known: []string{"BPE"}}
	case charsmap > 0 || collapse:
		return nil, &UnsupportedError{What: "SentencePiece normalizer", Name: "that changes characters or removes spaces", Known: []string{"identity"}}
	}
	for field, id := range map[int]*int32{40: &v.UNK, 41: &v.BOS, 42: &v.EOS, 43: &v.PAD} {
		if n := ids[field]; n >= 0 && int(n) < len(v.Tokens) {
			*id = n
		}
	}
	return v, nil
}

// addPiece reads one token.
func (v *Vocab) addPiece(b []byte) error {
	text, score, kind := "", float32(0), TokenNormal
	err := eachField(b, func(field int, num uint64, b []byte) error {
		switch field {
		case 1:
			text = string(b)
		case 2:
			score = math.Float32frombits(uint32(num))
		case 3:
			if num < 1 || num > uint64(TokenByte) {
				return fmt.Errorf("token %d has type %d, expected 1 to 6", len(v.Tokens), num)
			}
			kind = TokenType(num)
		}
		return nil
	})
	if err == nil && !utf8.ValidString(text) {
		err = fmt.Errorf("token %d is not UTF-8", len(v.Tokens))
	}
	v.Tokens, v.Scores, v.Types = append(v.Tokens, text), append(v.Scores, score), append(v.Types, kind)
	return err
}

// readAdded adds the tokens of added_tokens.json and of added_tokens_decoder in
// tokenizer_config.json, which a tokenizer.model does not have.
func (v *Vocab) readAdded(base string) error {
	var byText map[string]int
	if err := readConfig(base+"added_tokens.json", &byText); err != nil {
		return err
	}
	var config struct {
		Added map[string]hfAdded `json:"added_tokens_decoder"`
	}
	const name = "tokenizer_config.json"
	if err := readConfig(base+name, &config); err != nil {
		return err
	}
	all := map[int]hfAdded{}
	for text, id := range byText {
		all[id] = hfAdded{Content: text, Special: true}
	}
	for key, a := range config.Added {
		id, err := strconv.Atoi(key)
		if err != nil {
			return &FormatError{Format: "tokenizer", File: base + name, Field: "added_tokens_decoder", Err: fmt.Errorf("found id %s, expected a number", quoteText(key))}
		}
		all[id] = a
	}
	ids := make([]int, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if id < 0 || id > len(v.Tokens)+maxHoles || all[id].Content == "" {
			return &FormatError{Format: "tokenizer", File: base + name, Field: "added_tokens_decoder", Err: fmt.Errorf("found id %d with text %s and %d tokens before it", id, quoteText(all[id].Content), len(v.Tokens))}
		}
		for len(v.Tokens) <= id {
			v.Tokens, v.Scores, v.Types = append(v.Tokens, ""), append(v.Scores, 0), append(v.Types, TokenUnused)
		}
		v.place(int32(id), all[id])
	}
	return nil
}

// place puts an added token at its id.
func (v *Vocab) place(id int32, a hfAdded) {
	if v.Types[id] == TokenUnknown && v.Tokens[id] == a.Content {
		return
	}
	v.Tokens[id], v.Types[id] = a.Content, TokenUserDefined
	if a.Special {
		v.Types[id] = TokenControl
	}
	if a.LStrip || a.RStrip || a.SingleWord || a.Normalized {
		v.Added = append(v.Added, AddedToken{ID: id, LStrip: a.LStrip, RStrip: a.RStrip, SingleWord: a.SingleWord, Normalized: a.Normalized})
	}
}
