package loaders

import (
	"fmt"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonScanner walks through JSON text without building values. It serves
// tokenizer.json, whose two large parts, half a million strings each, a general
// decoder takes seconds for. The first error stays and ends all loops.
type jsonScanner struct {
	data []byte
	pos  int
	err  error
}

func (s *jsonScanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("offset %d: %s", s.pos, fmt.Sprintf(format, args...))
		s.pos = len(s.data)
	}
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *jsonScanner) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (s *jsonScanner) expect(c byte) {
	if got := s.peek(); got != c {
		s.failFound(got, string(rune(c)))
		return
	}
	s.pos++
}

func (s *jsonScanner) failFound(got byte, want string) {
	if got == 0 {
		s.fail("found the end, expected %s", want)
		return
	}
	s.fail("found %q, expected %s", got, want)
}

// object calls member for each key, which must read the value.
func (s *jsonScanner) object(member func(key string)) {
	var buf [64]byte
	s.list('{', '}', func() {
		key := string(s.appendString(buf[:0]))
		s.expect(':')
		if s.err == nil {
			member(key)
		}
	})
}

// list reads items separated by commas between two brackets.
func (s *jsonScanner) list(open, end byte, item func()) {
	s.expect(open)
	if s.err == nil && s.peek() == end {
		s.pos++
		return
	}
	for s.err == nil {
		item()
		switch c := s.peek(); {
		case s.err != nil:
		case c == ',':
			s.pos++
		case c == end:
			s.pos++
			return
		default:
			s.failFound(c, fmt.Sprintf("a comma or %q", end))
		}
	}
}

// appendString reads a string and appends its text. A lone surrogate becomes
// U+FFFD, as encoding/json has it.
func (s *jsonScanner) appendString(dst []byte) []byte {
	s.expect('"')
	for s.err == nil {
		from := s.pos
		for s.pos < len(s.data) && s.data[s.pos] != '"' && s.data[s.pos] != '\\' && s.data[s.pos] >= ' ' {
			s.pos++
		}
		dst = append(dst, s.data[from:s.pos]...)
		switch {
		case s.pos == len(s.data):
			s.fail("found the end inside a string")
		case s.data[s.pos] == '"':
			s.pos++
			return dst
		case s.data[s.pos] == '\\':
			dst = s.appendEscape(dst)
		default:
			s.fail("found control character %#02x inside a string", s.data[s.pos])
		}
	}
	return dst
}

func (s *jsonScanner) appendEscape(dst []byte) []byte {
	if s.pos+1 >= len(s.data) {
		s.fail("found the end inside a string")
		return dst
	}
	c := s.data[s.pos+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return s.appendUnicode(dst)
	default:
		s.fail("found escape %q inside a string", c)
		return dst
	}
	s.pos += 2
	return append(dst, c)
}

func (s *jsonScanner) appendUnicode(dst []byte) []byte {
	r := s.hex4()
	if s.err != nil {
		return dst
	}
	s.pos += 6
	if utf16.IsSurrogate(r) {
		low := rune(-1)
		if s.pos+1 < len(s.data) && s.data[s.pos] == '\\' && s.data[s.pos+1] == 'u' {
			low = s.hex4()
		}
		r = utf16.DecodeRune(r, low)
		if r != utf8.RuneError {
			s.pos += 6
		}
	}
	return utf8.AppendRune(dst, r)
}

// hex4 returns the number of the \uXXXX at the position.
func (s *jsonScanner) hex4() rune {
	if s.pos+6 > len(s.data) {
		s.fail("found the end inside a string")
		return 0
	}
	r := rune(0)
	for _, c := range s.data[s.pos+2 : s.pos+6] {
		d := hexDigit(c)
		if d < 0 {
			s.fail("found %q, expected a hexadecimal digit", c)
			return 0
		}
		r = r<<4 | rune(d)
	}
	return r
}

// id reads an integer from 0 to 2³¹-1.
func (s *jsonScanner) id() int32 {
	c := s.peek()
	if c < '0' || c > '9' {
		s.failFound(c, "a token id")
		return 0
	}
	n := int64(0)
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		n = n*10 + int64(s.data[s.pos]-'0')
		if n > math.MaxInt32 {
			s.fail("found a token id above %d", math.MaxInt32)
			return 0
		}
		s.pos++
	}
	return int32(n)
}

// value skips one value and returns its text. It checks that brackets pair up
// and strings end, not more; what is needed of it is decoded later.
func (s *jsonScanner) value() []byte {
	s.peek()
	from := s.pos
	var open []byte
	for s.err == nil {
		c := s.peek()
		switch c {
		case '"':
			s.skipString()
		case '{', '[':
			open = append(open, c+2) // the closing bracket, in ASCII
			s.pos++
			continue
		case '}', ']':
			if len(open) == 0 || open[len(open)-1] != c {
				s.failFound(c, "a value")
				return nil
			}
			open = open[:len(open)-1]
			s.pos++
		case ',', ':':
			if len(open) == 0 {
				s.failFound(c, "a value")
				return nil
			}
			s.pos++
			continue
		case 0:
			s.failFound(c, "a value")
			return nil
		default:
			at := s.pos
			for s.pos < len(s.data) && isLiteral(s.data[s.pos]) {
				s.pos++
			}
			if s.pos == at {
				s.failFound(c, "a value")
				return nil
			}
		}
		if len(open) == 0 {
			return s.data[from:s.pos]
		}
	}
	return nil
}

func isLiteral(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'E'
}

// skipString skips a string without looking at its escapes.
func (s *jsonScanner) skipString() {
	for s.pos++; s.pos < len(s.data); s.pos++ {
		switch s.data[s.pos] {
		case '\\':
			s.pos++
		case '"':
			s.pos++
			return
		}
	}
	s.pos = len(s.data)
	s.fail("found the end inside a string")
}

// textList is a list of texts in one block of memory.
type textList struct {
	block []byte
	ends  []int
}

func (l *textList) end() { l.ends = append(l.ends, len(l.block)) }

// strings returns the texts as parts of one string.
func (l *textList) strings() []string {
	all := string(l.block)
	out := make([]string, len(l.ends))
	from := 0
	for i, end := range l.ends {
		out[i] = all[from:end]
		from = end
	}
	return out
}
