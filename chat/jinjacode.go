package chat

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// codeWriter rewrites the tokens inside a tag.
type codeWriter struct {
	strings.Builder
	depth    int      // of brackets
	closers  []string // what closes them
	target   bool     // what set gives a value to, up to =
	strings  []string // literals
	newlines int      // of the source
	prev     string   // the token before, "" at the start
	state    testState
	arg      int // depth at which an argument without parentheses began
	// pending are the filters of right operands that are being read, by depth.
	pending []string
}

// right notes that the operand which begins has a filter.
func (w *codeWriter) right(filter string) {
	for len(w.pending) <= w.depth {
		w.pending = append(w.pending, "")
	}
	w.pending[w.depth] = filter
}

// ended writes the filter of the operand that has ended, and forgets those of
// deeper ones.
func (w *codeWriter) ended() {
	if w.depth >= len(w.pending) {
		return
	}
	if f := w.pending[w.depth]; f != "" && w.operand() {
		w.WriteString("|" + f + " ")
	}
	w.pending = w.pending[:w.depth]
}

// operator writes the filters of the operands beside an operator that makes
// texts longer.
func (w *codeWriter) operator(op string) {
	if !w.operand() {
		w.ended()
		return
	}
	was := ""
	if w.depth < len(w.pending) {
		was = w.pending[w.depth]
	}
	switch {
	case op == "*" && was == rightName:
		w.pending[w.depth] = againName
	case op == "*":
		w.ended()
		w.WriteString("|" + leftName + " ")
	case was == "":
		w.WriteString("|" + sizeName + " ")
	}
	w.ended()
	if op == "*" {
		w.right(rightName)
	} else {
		w.right(sizeName)
	}
}

// testState follows the words after "is".
type testState uint8

const (
	noTest  testState = iota
	afterIs           // "is" was read
	afterIsNot
	afterName // the name of the test: an argument may follow
	inArg     // an argument without parentheses
)

// token takes one token of s and returns its length.
func (w *codeWriter) token(s string) (int, error) {
	c := s[0]
	switch {
	case c == '\n':
		w.newlines++
		w.WriteByte(c)
		return 1, nil
	case c == ' ' || c == '\t':
		w.WriteByte(' ')
		return 1, nil
	case c == '\'' || c == '"':
		text, n, err := unquoteJinja(s)
		if err != nil {
			return 0, err
		}
		w.newlines += strings.Count(s[:n], "\n")
		w.strings = append(w.strings, text)
		w.argument(false)
		if w.prev == "string" {
			w.WriteString("+")
		}
		w.WriteString(quoteJinja(text))
		w.prev = "string"
		return n, nil
	case isNameByte(c):
		n := 1
		for n < len(s) && (isNameByte(s[n]) || c >= '0' && c <= '9' && s[n] == '.' && n+1 < len(s) && s[n+1] >= '0' && s[n+1] <= '9') {
			n++
		}
		w.name(s[:n])
		return n, nil
	}
	op := s[:1]
	for _, two := range []string{"==", "!=", "<=", ">=", "**", "//"} {
		if strings.HasPrefix(s, two) {
			op = two
		}
	}
	switch op {
	case "(", "[", "{":
		if op == "[" && w.operand() && !isSlice(s) {
			w.WriteString("|" + itemName)
			op, w.prev = "(", "["
			w.closers = append(w.closers, ")")
			w.depth++
			w.WriteString("(")
			return 1, nil
		}
		w.closers = append(w.closers, map[string]string{"(": ")", "[": "]", "{": "}"}[op])
		if w.state == afterName && op == "(" {
			w.state = noTest // the library reads the arguments
		}
		w.argument(false)
		w.depth++
		if w.depth > maxDepth {
			return 0, errDepth
		}
	case ")", "]", "}":
		w.ended()
		if w.depth--; w.depth < 0 {
			return 0, fmt.Errorf("unexpected %q", op)
		}
		w.endArgument(w.depth < w.arg)
		op = w.closers[w.depth]
		w.closers = w.closers[:w.depth]
	case ".":
		if n := len("replace"); w.operand() && strings.HasPrefix(s[1:], "replace") && strings.HasPrefix(strings.TrimLeft(s[1+n:], " \t\n"), "(") {
			w.WriteString("|" + filterName + "replace")
			w.prev = "replace"
			return 1 + n, nil
		}
		if n, name := attributeOf(s); name != "" && w.operand() && !w.target {
			w.WriteString("|" + attrName + "(" + quoteJinja(name) + ")")
			w.newlines += strings.Count(s[:n], "\n")
			w.prev = ")"
			return n, nil
		}
	default:
		if strings.IndexByte("+-*/%<>=!~|,:", c) < 0 || op == "!" {
			return 0, fmt.Errorf("unexpected %q", firstRune(s))
		}
		switch op {
		case "+", "~", "*":
			w.operator(op)
		case "|", "**":
		default:
			w.ended()
		}
		w.endArgument(true)
		if op == "=" && w.depth == 0 {
			w.target = false
		}
	}
	w.WriteString(op)
	if op == "}" {
		w.WriteByte(' ') // two of them must not look like the end of the tag
	}
	w.prev = op
	return len(op), nil
}

// operand reports whether what was read last can have an attribute or an item.
func (w *codeWriter) operand() bool {
	switch w.prev {
	case "", "test":
		return false
	case "string", ")", "]", "}":
		return true
	}
	return isNameByte(w.prev[0]) && !isKeyword(w.prev)
}

// isSlice reports whether the brackets that s begins with hold a colon.
func isSlice(s string) bool {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\'', '"':
			_, n, err := unquoteJinja(s[i:])
			if err != nil {
				return false
			}
			i += n - 1
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return false
			}
		case ':':
			if depth == 1 {
				return true
			}
		}
	}
	return false
}

// attributeOf returns the name after the point that s begins with, unless it is
// called, and the length of both.
func attributeOf(s string) (n int, name string) {
	rest := strings.TrimLeft(s[1:], " \t\n")
	k := 0
	for k < len(rest) && isNameByte(rest[k]) {
		k++
	}
	if strings.HasPrefix(strings.TrimLeft(rest[k:], " \t\n"), "(") {
		return 0, ""
	}
	return len(s) - len(rest) + k, rest[:k]
}

// name takes a name, keyword or number.
func (w *codeWriter) name(s string) {
	if isKeyword(s) && w.prev != "|" && w.prev != "." {
		w.ended()
	}
	switch {
	case w.prev == "|":
		if _, ok := filters[s]; ok {
			s = filterName + s
		}
	case w.prev == ".":
	case s == "is":
		w.endArgument(true)
		w.state, w.prev = afterIs, s
		return
	case w.state == afterIs && s == "not":
		w.state = afterIsNot
		return
	case w.state == afterIs || w.state == afterIsNot:
		name := testName
		if w.state == afterIsNot {
			name = notName
		}
		w.state, w.prev = afterName, "test"
		w.WriteString("|" + name + s)
		return
	default:
		w.argument(isKeyword(s))
	}
	w.WriteString(s)
	w.prev = s
}

func isKeyword(s string) bool {
	switch s {
	case "and", "or", "not", "if", "else", "in", "is", "recursive":
		return true
	}
	return false
}

// argument notes that something follows that may be the argument of a test
// without parentheses.
func (w *codeWriter) argument(keyword bool) {
	switch {
	case w.state == afterName && !keyword && w.prev == "test":
		w.WriteByte('(')
		w.state, w.arg = inArg, w.depth
	case w.state == inArg && keyword && w.depth == w.arg:
		w.endArgument(true)
	case w.state == afterName:
		w.state = noTest
	}
}

func (w *codeWriter) endArgument(really bool) {
	if w.state == inArg && w.depth <= w.arg && really {
		w.WriteByte(')')
		w.state = noTest
	}
	if w.state == afterName {
		w.state = noTest
	}
}

// String returns the code and closes what is open.
func (w *codeWriter) String() string {
	w.depth = 0
	w.ended()
	w.endArgument(true)
	return w.Builder.String()
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func firstRune(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

// quoteJinja writes a string literal that the library reads as s.
func quoteJinja(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// unquoteJinja reads the string literal that s begins with, escapes as in
// Python.
func unquoteJinja(s string) (text string, n int, err error) {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		c := s[i]
		if c == quote {
			return b.String(), i + 1, nil
		}
		if c != '\\' || i+1 >= len(s) {
			b.WriteByte(c)
			continue
		}
		i++
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		if p := strings.IndexByte(`abfnrtv\'"`, s[i]); p >= 0 {
			b.WriteByte("\a\b\f\n\r\t\v\\'\""[p])
		} else if digits > 0 {
			if i+digits >= len(s) {
				break
			}
			v, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil {
				return "", 0, fmt.Errorf(`a string literal has \%c without %d hexadecimal digits`, s[i], digits)
			}
			r := rune(v)
			i += digits
			// Two surrogates are one character.
			if r >= 0xD800 && r < 0xDC00 && i+6 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
				if low, err := strconv.ParseUint(s[i+3:i+7], 16, 16); err == nil && low >= 0xDC00 && low < 0xE000 {
					r = 0x10000 + (r-0xD800)<<10 + rune(low) - 0xDC00
					i += 6
				}
			}
			b.WriteRune(r)
		} else if s[i] >= '0' && s[i] <= '7' {
			v := 0
			k := 0
			for ; k < 3 && i+k < len(s) && s[i+k] >= '0' && s[i+k] <= '7'; k++ {
				v = v*8 + int(s[i+k]-'0')
			}
			i += k - 1
			b.WriteRune(rune(v))
		} else if s[i] != '\n' {
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return "", 0, fmt.Errorf("a string literal has no end")
}
