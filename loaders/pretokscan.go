package loaders

import (
	"unicode"
	"unicode/utf8"
)

// class is a set of properties of a character.
type class uint8

const (
	isLetter  class = 1 << iota // \p{L}
	isNumber                    // \p{N}
	isSpace                     // \s
	isMark                      // \p{M}
	isNewline                   // \r and \n
	isUpper                     // \p{Lu} or \p{Lt}
	isLower                     // \p{Ll}
)

// asciiClass holds the classes of the first 128 characters.
var asciiClass = func() (t [128]class) {
	for r := range t {
		t[r] = classOf(rune(r))
	}
	return t
}()

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r):
		switch {
		case unicode.In(r, unicode.Lu, unicode.Lt):
			return isLetter | isUpper
		case unicode.Is(unicode.Ll, r):
			return isLetter | isLower
		}
		return isLetter
	case unicode.Is(unicode.N, r):
		return isNumber
	case r == '\r' || r == '\n':
		return isSpace | isNewline
	case unicode.IsSpace(r):
		return isSpace
	case unicode.Is(unicode.M, r):
		return isMark
	}
	return 0
}

// classAt returns the class and length of the character at byte i of s. A byte
// that is not part of valid UTF-8 is a character without properties. At the
// end of s both are 0.
func classAt(s string, i int) (c class, n int) {
	if i >= len(s) {
		return 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	if r == utf8.RuneError && n == 1 {
		return 0, 1
	}
	return classOf(r), n
}

// skip returns the index after the run of characters of s from i on that have
// one of the classes in any, at most limit characters if limit is positive.
func skip(s string, i int, any class, limit int) int {
	for count := 0; limit <= 0 || count < limit; count++ {
		c, n := classAt(s, i)
		if n == 0 || c&any == 0 {
			break
		}
		i += n
	}
	return i
}

// skipOther returns the index after the run of characters from i on that have
// none of the classes.
func skipOther(s string, i int, none class) int {
	for {
		c, n := classAt(s, i)
		if n == 0 || c&none != 0 {
			return i
		}
		i += n
	}
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at byte i
// of s, 0 if there is none. fold accepts capitals.
func contraction(s string, i int, fold bool) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return 0
	}
	low := func(i int) byte {
		if i >= len(s) {
			return 0
		}
		if c := s[i]; fold && c >= 'A' && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return s[i]
	}
	switch a, b := low(i+1), low(i+2); {
	case a == 's', a == 't', a == 'm', a == 'd':
		return 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	}
	return 0
}

// spaces returns the length of the piece that \s+(?!\S)|\s+ matches at the
// start of s, which must be white space: the whole run at the end of the text,
// otherwise the run without its last character, which goes to what follows,
// unless it is alone.
func spaces(s string) int {
	end, last := 0, 0
	for {
		c, n := classAt(s, end)
		if n == 0 {
			return end
		}
		if c&isSpace == 0 {
			break
		}
		last = end
		end += n
	}
	if last > 0 {
		return last
	}
	return end
}

// newlines returns the length that \s*[\r\n]+ matches at the start of s: white
// space up to and with the last newline of the run, 0 if it has none.
func newlines(s string) int {
	end := 0
	for i := 0; ; {
		c, n := classAt(s, i)
		if n == 0 || c&isSpace == 0 {
			return end
		}
		i += n
		if c&isNewline != 0 {
			end = i
		}
	}
}

// nextGPT2 returns the length of the first piece by the pattern gpt-2.
func nextGPT2(s string) int {
	if n := contraction(s, 0, false); n > 0 {
		return n
	}
	from := 0
	if s[0] == ' ' {
		from = 1
	}
	switch c, n := classAt(s, from); {
	case n == 0:
	case c&isLetter != 0:
		return skip(s, from, isLetter, 0)
	case c&isNumber != 0:
		return skip(s, from, isNumber, 0)
	case c&isSpace == 0:
		return skipOther(s, from, isSpace|isLetter|isNumber)
	}
	return spaces(s)
}

// wordRule is the pattern family of llama-bpe and qwen2.
type wordRule struct {
	digits int  // longest run of digits in one piece
	marks  bool // combining marks count as letters
}

func (r wordRule) next(s string) int {
	if n := contraction(s, 0, true); n > 0 {
		return n
	}
	letter := isLetter
	if r.marks {
		letter |= isMark
	}
	c, n := classAt(s, 0)
	if c&letter != 0 {
		return skip(s, n, letter, 0)
	}
	if c&(isNewline|isNumber) == 0 { // one character of any other kind may lead a word
		if end := skip(s, n, letter, 0); end > n {
			return end
		}
	}
	if c&isNumber != 0 {
		return skip(s, 0, isNumber, r.digits)
	}
	return punctuation(s, isSpace|letter|isNumber, false)
}

// punctuation returns the length of the first piece by the part that the newer
// patterns share:  ?[^none]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ where the newlines
// after punctuation may be slashes too.
func punctuation(s string, none class, slash bool) int {
	from := 0
	if s[0] == ' ' {
		from = 1
	}
	if end := skipOther(s, from, none); end > from {
		for end < len(s) && (s[end] == '\r' || s[end] == '\n' || slash && s[end] == '/') {
			end++
		}
		return end
	}
	if n := newlines(s); n > 0 {
		return n
	}
	return spaces(s)
}

// caseRule is the pattern family of gpt-4o and tekken, which ends words where
// lower case turns to upper.
type caseRule struct {
	digits       int  // longest run of digits in one piece
	contractions bool // 's and the like belong to the word before
}

func (r caseRule) next(s string) int {
	c, n := classAt(s, 0)
	end := 0
	if c&(isNewline|isNumber|isLetter) == 0 { // one other character may lead a word
		word, lower := caseWord(s, n)
		if lower || c&isMark == 0 {
			end = word
		}
		// A mark before capitals is a word of its own: the first alternative
		// matches it alone before the second one is tried.
	}
	if end == 0 {
		end, _ = caseWord(s, 0)
	}
	if end > 0 {
		if r.contractions {
			end += contraction(s, end, true)
		}
		return end
	}
	if c&isNumber != 0 {
		return skip(s, 0, isNumber, r.digits)
	}
	return punctuation(s, isSpace|isLetter|isNumber, true)
}

// caseWord returns the index after the word that starts at byte i of s, 0 if
// there is none. With U for upper or title case, C for letters without case and
// marks, l for lower case it is
//
//	[UC]*[lC]+ | [UC]+[lC]*
//
// taking the first alternative that matches, each as long as it can. first
// tells that it was the first.
func caseWord(s string, i int) (end int, first bool) {
	afterC := 0 // index after the last C of the run of U and C
	j := i
	for {
		c, n := classAt(s, j)
		if c&isLower != 0 {
			return skipCase(s, j), true
		}
		if c&(isLetter|isMark) == 0 {
			break
		}
		j += n
		if c&isUpper == 0 {
			afterC = j
		}
	}
	if afterC > 0 {
		return afterC, true
	}
	if j > i {
		return j, false
	}
	return 0, false
}

// skipCase returns the index after the run of lower case letters, letters
// without case and marks that starts at i.
func skipCase(s string, i int) int {
	for {
		c, n := classAt(s, i)
		if c&(isLetter|isMark) == 0 || c&isUpper != 0 {
			return i
		}
		i += n
	}
}
