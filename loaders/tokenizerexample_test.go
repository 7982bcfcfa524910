package loaders_test

import (
	"fmt"

	"graphrun/loaders"
)

// A vocabulary usually comes from OpenTokenizer; this one is made by hand.
func ExampleTokenizer() {
	tok, err := loaders.NewTokenizer(&loaders.Vocab{
		Model:  "llama",
		Tokens: []string{"<unk>", "<s>", "▁", "h", "i", "hi", "▁hi", "<0xC3>", "<0xA9>"},
		Scores: []float32{0, 0, -9, -8, -7, -2, -1, 0, 0},
		Types: []loaders.TokenType{
			loaders.TokenUnknown, loaders.TokenControl, loaders.TokenNormal, loaders.TokenNormal,
			loaders.TokenNormal, loaders.TokenNormal, loaders.TokenNormal, loaders.TokenByte, loaders.TokenByte,
		},
		BOS: 1, EOS: -1, EOT: -1, EOM: -1, UNK: 0, PAD: -1,
		AddBOS: true, AddSpacePrefix: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := tok.Encode("hi hié", loaders.EncodeOptions{AddSpecial: true})
	fmt.Println(ids)
	fmt.Println(tok.Decode(ids, loaders.DecodeOptions{}))

	stream := tok.Stream(loaders.DecodeOptions{})
	for _, id := range ids {
		fmt.Printf("%q ", stream.Push(id))
	}
	fmt.Printf("%q\n", stream.Flush())
	// Output:
	// [1 6 6 7 8]
	// hi hié
	// "" "hi" " hi" "" "é" ""
}
