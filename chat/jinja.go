package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// The template library differs from the reference implementation (Jinja2 as
// transformers sets it up, with trim_blocks and lstrip_blocks) where it counts:
// it trims white space across tags, writes None and floats in its own way, has
// filters and tests that do less, and recurses without limit. Its output is
// corrected by giving it another template that means what the reference makes
// of the original:
//
//   - text is trimmed here and becomes an expression, so that nothing is left
//     to trim;
//   - what an expression prints goes through the function str_;
//   - filters, and tests as filters, get names of our own, which the library
//     looks up among the variables: see filters.go;
//   - x.y and x[y] become filters too, which refuse what is undefined;
//   - string literals are decoded here;
//   - names that a loop sets are put back to what they are outside before each
//     turn;
//   - loops and macros begin with a call that counts.

// Names of the functions a rewritten template calls.
const (
	strName    = "graphrun_str"
	tickName   = "graphrun_tick"
	enterName  = "graphrun_enter"
	leaveName  = "graphrun_leave"
	attrName   = "graphrun_attr"
	itemName   = "graphrun_item"
	outerName  = "graphrun_outer_"
	filterName = "graphrun_"
	testName   = "graphrun_is_"
	notName    = "graphrun_isnot_"
)

// rewriter makes the library's template out of the reference's.
type rewriter struct {
	src      string
	at       int
	out      chunks
	lines    int      // newlines of src up to at, less those in out
	frames   []*frame // loops and macros around at
	loops    int      // that have begun
	literals []string // texts the template can print
	starting bool     // at is the start of a line
}

// chunks is text of which parts are filled in later.
type chunks []string

func (c *chunks) WriteString(s string) { *c = append(*c, s) }

// frame is a loop, or a macro or call block, whose names are its own.
type frame struct {
	number        int
	loop          bool
	own           []string // names that the loop goes through
	set           []string // names that it sets
	before, after int      // chunks before the loop and at the start of its body
}

// rewrite returns the template for the library and the texts it can print.
func rewrite(src string) (out string, literals []string, err error) {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	r := &rewriter{src: strings.TrimSuffix(src, "\n"), starting: true}
	for r.at < len(r.src) {
		if err := r.next(); err != nil {
			return "", nil, err
		}
	}
	return strings.Join(r.out, ""), r.literals, nil
}

// next takes the text up to a tag, and the tag.
func (r *rewriter) next() error {
	open := r.at
	for {
		i := strings.IndexByte(r.src[open:], '{')
		if i < 0 || open+i+1 >= len(r.src) {
			r.text(r.src[r.at:])
			r.at = len(r.src)
			return nil
		}
		open += i
		if strings.IndexByte("{%#", r.src[open+1]) >= 0 {
			break
		}
		open++
	}
	text, kind := r.src[r.at:open], r.src[open+1]
	start := open + 2
	sign := byte(0)
	if start < len(r.src) && (r.src[start] == '-' || r.src[start] == '+' && kind != '{') {
		sign = r.src[start]
		start++
	}
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	case sign == 0 && kind != '{':
		line := strings.LastIndexByte(text, '\n') + 1
		if (line > 0 || r.starting) && strings.TrimSpace(text[line:]) == "" {
			text = text[:line]
		}
	}
	r.lines += strings.Count(r.src[r.at:open], "\n")
	r.at = start
	r.emit(text)
	switch kind {
	case '#':
		end := strings.Index(r.src[start:], "#}")
		if end < 0 {
			return r.errorf(open, "the comment has no end")
		}
		end += start
		r.lines += strings.Count(r.src[start:end], "\n")
		r.close(end, "#}", end > start && r.src[end-1] == '-', end > start && r.src[end-1] == '+')
		return nil
	case '%':
		return r.block(open)
	}
	return r.print(open)
}

// text appends literal text to the template.
func (r *rewriter) text(s string) {
	r.lines += strings.Count(s, "\n")
	r.emit(s)
}

// emit prints literal text. Newlines that were trimmed away are put inside the
// tag, so that the library counts lines as the author does.
func (r *rewriter) emit(s string) {
	if s == "" && r.lines == 0 {
		return
	}
	if s != "" {
		r.literals = append(r.literals, s)
	}
	r.lines -= strings.Count(s, "\n")
	begin, end := "{{", "}}"
	if len(r.frames) > 0 { // it may be printed again and again
		begin, end = "{{"+strName+"(", ")}}"
	}
	r.out.WriteString(begin + quoteJinja(s))
	for ; r.lines > 0; r.lines-- {
		r.out.WriteString("\n")
	}
	r.out.WriteString(end)
}

// close goes on after a tag that ends at end.
func (r *rewriter) close(end int, closer string, trim, keep bool) {
	at := end + len(closer)
	rest := r.src[at:]
	switch {
	case trim:
		at = len(r.src) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
	case !keep && closer != "}}" && strings.HasPrefix(rest, "\n"):
		at++
	}
	r.lines += strings.Count(r.src[end:at], "\n")
	r.starting = r.src[at-1] == '\n'
	r.at = at
}

// print takes {{ expression }}.
func (r *rewriter) print(open int) error {
	code, err := r.code(open, "}}")
	if err != nil {
		return err
	}
	r.out.WriteString("{{" + strName + "(" + code + ")}}")
	return nil
}

// block takes {% statement %}.
func (r *rewriter) block(open int) error {
	word := strings.TrimLeftFunc(r.src[r.at:], unicode.IsSpace)
	n := 0
	for n < len(word) && isNameByte(word[n]) {
		n++
	}
	word = word[:n]
	if word == "raw" {
		return r.raw(open)
	}
	code, err := r.code(open, "%}")
	if err != nil {
		return err
	}
	var top *frame
	if n := len(r.frames); n > 0 {
		top = r.frames[n-1]
	}
	switch word {
	case "for":
		r.loops++
		f := &frame{number: r.loops, loop: true, before: len(r.out), own: loopNames(code)}
		r.out.WriteString("")
		r.out.WriteString("{%" + code + "%}{{" + tickName + "()}}")
		f.after = len(r.out)
		r.out.WriteString("")
		r.frames = append(r.frames, f)
		return nil
	case "macro", "call":
		r.frames = append(r.frames, &frame{})
	case "endfor", "endmacro", "endcall":
		if top == nil || top.loop != (word == "endfor") {
			return r.errorf(open, "%s without its beginning", word)
		}
		r.frames = r.frames[:len(r.frames)-1]
		for _, name := range top.set {
			outer := outerName + strconv.Itoa(top.number) + "_" + name
			r.out[top.before] += "{%set " + outer + "=" + name + "%}"
			r.out[top.after] += "{%set " + name + "=" + outer + "%}"
		}
	case "set":
		if name := setName(code); top != nil && top.loop && name != "" && !slices.Contains(top.set, name) && !slices.Contains(top.own, name) {
			top.set = append(top.set, name)
		}
	}
	if word == "endmacro" {
		r.out.WriteString("{{" + leaveName + "()}}")
	}
	r.out.WriteString("{%" + code + "%}")
	if word == "macro" {
		r.out.WriteString("{{" + enterName + "()}}")
	}
	return nil
}

// loopNames returns the names between for and in.
func loopNames(code string) []string {
	code = strings.TrimPrefix(strings.TrimSpace(code), "for")
	var names []string
	for word := range strings.FieldsFuncSeq(code, func(r rune) bool { return r > 127 || !isNameByte(byte(r)) }) {
		if word == "in" {
			break
		}
		names = append(names, word)
	}
	return names
}

// setName returns the name that a set statement gives a value to, "" if it is
// an attribute of a namespace.
func setName(code string) string {
	code = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(code), "set"))
	n := 0
	for n < len(code) && isNameByte(code[n]) {
		n++
	}
	rest := strings.TrimSpace(code[n:])
	if rest != "" && rest[0] != '=' {
		return ""
	}
	return code[:n]
}

// raw takes {% raw %} text {% endraw %}.
func (r *rewriter) raw(open int) error {
	if _, err := r.code(open, "%}"); err != nil {
		return err
	}
	for at := r.at; ; {
		i := strings.Index(r.src[at:], "{%")
		if i < 0 {
			return r.errorf(open, "raw has no endraw")
		}
		at += i
		tag := r.src[at+2:]
		left := strings.HasPrefix(tag, "-")
		tag = strings.TrimLeftFunc(strings.TrimLeft(tag, "+-"), unicode.IsSpace)
		rest, ok := strings.CutPrefix(tag, "endraw")
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		right := strings.HasPrefix(rest, "-")
		plus := strings.HasPrefix(rest, "+")
		rest = strings.TrimLeft(rest, "+-")
		if !ok || !strings.HasPrefix(rest, "%}") {
			at += 2
			continue
		}
		text := r.src[r.at:at]
		r.lines += strings.Count(text, "\n")
		if left {
			text = strings.TrimRightFunc(text, unicode.IsSpace)
		}
		r.emit(text)
		r.close(len(r.src)-len(rest), "%}", right, plus)
		return nil
	}
}

// code takes what stands inside a tag, up to closer, and returns it rewritten.
func (r *rewriter) code(open int, closer string) (string, error) {
	var w codeWriter
	if closer == "%}" && strings.HasPrefix(strings.TrimLeftFunc(r.src[r.at:], unicode.IsSpace), "set") {
		w.target = true
	}
	for i := r.at; i < len(r.src); {
		c := r.src[i]
		if w.depth == 0 {
			trim := c == '-' && strings.HasPrefix(r.src[i+1:], closer)
			keep := c == '+' && closer == "%}" && strings.HasPrefix(r.src[i+1:], closer)
			if trim || keep {
				i++
			}
			if strings.HasPrefix(r.src[i:], closer) {
				r.close(i, closer, trim, keep)
				code := w.String()
				r.literals = append(r.literals, w.strings...)
				r.lines -= strings.Count(code, "\n") - w.newlines
				return code, nil
			}
		}
		n, err := w.token(r.src[i:])
		if err != nil {
			return "", r.errorf(i, "%v", err)
		}
		i += n
	}
	return "", r.errorf(open, "the tag has no %s", closer)
}

func (r *rewriter) errorf(at int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", 1+strings.Count(r.src[:at], "\n"), fmt.Sprintf(format, args...))
}
