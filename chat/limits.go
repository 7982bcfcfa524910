package chat

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ardanlabs/jinja"
)

// A template comes with a file from anywhere. Its texts double with each x ~ x,
// or grow a thousandfold with one "x" * 1000, so what its operators and filters
// read and what it prints is counted.
const (
	maxText  = 16 << 20  // bytes of one text that an operator takes or a filter makes
	maxMade  = 256 << 20 // bytes that the operators of a rendering take together
	maxPrint = 64 << 20  // bytes that a rendering prints
)

// Names of the filters that the rewriter puts behind operands.
const (
	sizeName  = "graphrun_size"  // an operand of + or ~
	leftName  = "graphrun_left"  // what stands before *
	rightName = "graphrun_right" // what stands behind *
	againName = "graphrun_again" // both
)

var errTooMuch = errors.New("makes too much text")

// budget counts what a rendering makes.
type budget struct {
	made, printed int
	small         bool  // a probe: a sixteenth and a megabyte are enough
	times         []int // lengths of texts before a * whose other side is not computed yet
}

// take counts n bytes.
func (b *budget) take(n int) error {
	most := maxMade
	if b.small {
		most = maxMade / 16
	}
	if b.made += n; n > maxText || b.made > most {
		return fmt.Errorf("%w: %d bytes at once, %d together; %d and %d are allowed", errTooMuch, n, b.made, maxText, most)
	}
	return nil
}

// print counts what is printed.
func (b *budget) print(n int) error {
	most := maxPrint
	if b.small {
		most = 1 << 20
	}
	if b.printed += n; b.printed > most {
		return fmt.Errorf("%w: it prints more than %d bytes", errTooMuch, most)
	}
	return nil
}

// weight is about the size of a value in bytes.
func weight(v jinja.Value) int {
	switch {
	case v.IsString():
		return len(v.AsString())
	case v.IsList():
		return 64 * v.AsList().Len()
	case v.IsDict():
		return 128 * len(v.AsDict().Keys)
	}
	return 0
}

// size is the filter behind an operand of + or ~.
func (b *budget) size(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	n := weight(a[0])
	if a[0].IsList() || a[0].IsDict() { // ~ prints what is in it
		n = max(n, len(printText(a[0])))
	}
	return a[0], b.take(n)
}

// left is the filter behind what stands before *.
func (b *budget) left(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	n := 0
	if a[0].IsString() {
		n = len(a[0].AsString())
	}
	b.times = append(b.times, n)
	return a[0], nil
}

// right is the filter behind what stands behind *.
func (b *budget) right(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	_, err := b.multiply(a[0])
	return a[0], err
}

// again is the filter between two *: the product before is the left side of the
// next.
func (b *budget) again(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	n, err := b.multiply(a[0])
	b.times = append(b.times, n)
	return a[0], err
}

// multiply returns the length of a text taken v times.
func (b *budget) multiply(v jinja.Value) (int, error) {
	if len(b.times) == 0 {
		return 0, errors.New("a product without a left side")
	}
	n := b.times[len(b.times)-1]
	b.times = b.times[:len(b.times)-1]
	if n == 0 || !v.IsInt() {
		return 0, nil
	}
	times := v.AsInt()
	if times < 0 {
		return 0, fmt.Errorf("a text is taken %d times", times)
	}
	if times > maxText {
		return 0, fmt.Errorf("%w: a text is taken %d times", errTooMuch, times)
	}
	return n * int(times), b.take(n * int(times))
}

// replace is the filter and method of this name.
func (b *budget) replace(a []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	from, to := option(a, kwargs, 1, "old"), option(a, kwargs, 2, "new")
	if from.IsUndefined() || to.IsUndefined() {
		return jinja.Undefined(), errors.New("replace: takes a text and what it becomes")
	}
	s, old, with := printText(a[0]), printText(from), printText(to)
	count := -1
	if n := option(a, kwargs, 3, "count"); n.IsInt() {
		count = int(n.AsInt())
	}
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	if n > 0 && len(with) > maxText/n {
		return jinja.Undefined(), fmt.Errorf("%w: replace puts %d bytes in %d places", errTooMuch, len(with), n)
	}
	if err := b.take(len(s) + n*len(with)); err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewString(strings.Replace(s, old, with, count)), nil
}

// indent is the filter of this name, for widths that a page has.
func (b *budget) indent(a []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	pad := "    "
	switch w := option(a, kwargs, 1, "width"); {
	case w.IsInt():
		if w.AsInt() < 0 || w.AsInt() > 1000 {
			return jinja.Undefined(), fmt.Errorf("indent: the width is %d, want 0 to 1000", w.AsInt())
		}
		pad = strings.Repeat(" ", int(w.AsInt()))
	case w.IsString():
		pad = w.AsString()
	}
	first, blank := option(a, kwargs, 2, "first").IsTruthy(), option(a, kwargs, 3, "blank").IsTruthy()
	s := printText(a[0])
	lines := strings.Count(s, "\n") + 1
	if len(pad) > maxText/lines {
		return jinja.Undefined(), fmt.Errorf("%w: indent puts %d bytes before %d lines", errTooMuch, len(pad), lines)
	}
	if err := b.take(len(s) + lines*len(pad)); err != nil {
		return jinja.Undefined(), err
	}
	parts := strings.Split(s, "\n")
	for i := range parts {
		if (i > 0 || first) && (blank || parts[i] != "") {
			parts[i] = pad + parts[i]
		}
	}
	return jinja.NewString(strings.Join(parts, "\n")), nil
}

// join is joinFilter, for texts that are not too long together.
func (b *budget) join(a []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	items, err := itemsOf(a[0])
	if err != nil {
		return jinja.Undefined(), fmt.Errorf("join: %w", err)
	}
	n := len(items) * weight(option(a, kwargs, 1, "d"))
	for _, v := range items {
		n += weight(v)
	}
	if err := b.take(n); err != nil {
		return jinja.Undefined(), err
	}
	return joinFilter(a, kwargs)
}
