package engine

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// stopper passes text through until a stop string appears. Text that may be the
// beginning of a stop string is held back until that is decided.
type stopper struct {
	stops []string
	held  string
}

func newStopper(stops []string) (*stopper, error) {
	for _, s := range stops {
		if s == "" || !utf8.ValidString(s) {
			return nil, fmt.Errorf("engine: stop string %q is empty or not UTF-8", s)
		}
	}
	return &stopper{stops: stops}, nil
}

// push adds text and returns what is certain: the text before the first stop
// string when one has appeared (stopped), else all but the longest end that is
// the beginning of a stop string.
func (p *stopper) push(text string) (out string, stopped bool) {
	if len(p.stops) == 0 {
		return text, false
	}
	if text == "" {
		return "", false
	}
	all := p.held + text
	cut := -1
	for _, s := range p.stops {
		if i := strings.Index(all, s); i >= 0 && (cut < 0 || i < cut) {
			cut = i
		}
	}
	if cut >= 0 {
		p.held = ""
		return all[:cut], true
	}
	hold := 0
	for _, s := range p.stops {
		for n := min(len(s)-1, len(all)); n > hold; n-- {
			if strings.HasSuffix(all, s[:n]) {
				hold = n
				break
			}
		}
	}
	p.held = all[len(all)-hold:]
	return all[:len(all)-hold], false
}

// flush returns the text held back: the end of the answer decided it.
func (p *stopper) flush() string {
	s := p.held
	p.held = ""
	return s
}
