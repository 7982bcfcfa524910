package loaders

import "unicode/utf8"

// Byte-level vocabularies spell a byte as a printable character, so that tokens
// are text: the printable bytes of Latin-1 as themselves, the other 68, in
// order, as U+0100 and up. A space is U+0120. Source: GPT-2, encoder.py.
var byteChars = func() (t [256]rune) {
	next := rune(0x100)
	for b := range t {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			t[b] = rune(b)
			continue
		}
		t[b] = next
		next++
	}
	return t
}()

// charBytes is the inverse of byteChars: the byte plus 1, 0 for a character
// that stands for no byte.
var charBytes = func() (t [0x144]uint16) {
	for b, r := range byteChars {
		t[r] = uint16(b) + 1
	}
	return t
}()

// appendByteChars appends the spelling of the bytes of s.
func appendByteChars(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = utf8.AppendRune(dst, byteChars[s[i]])
	}
	return dst
}

// appendCharBytes appends the bytes that a token's text spells. Characters that
// stand for no byte are kept as they are.
func appendCharBytes(dst []byte, text string) []byte {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if int(r) < len(charBytes) && charBytes[r] != 0 {
			dst = append(dst, byte(charBytes[r]-1))
		} else {
			dst = append(dst, text[i:i+n]...)
		}
		i += n
	}
	return dst
}
