package loaders

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// matcher finds whole tokens in text. Its texts are sorted; a table by first
// byte says where to look, so that ordinary text costs one look-up per byte.
type matcher struct {
	texts []string
	ids   []int32
	rules []AddedToken
	first [257]int32 // texts with first byte b are first[b] to first[b+1]
}

// makeMatchers collects the tokens that are matched as a whole.
func (t *Tokenizer) makeMatchers() {
	rules := make(map[int32]AddedToken, len(t.v.Added))
	for _, a := range t.v.Added {
		rules[a.ID] = a
	}
	var always, special, alwaysN, specialN matcher
	for i, text := range t.v.Tokens {
		id := int32(i)
		if text == "" || !t.v.isWhole(id) {
			continue
		}
		rule := rules[id]
		after := rule.Normalized && t.v.NFC
		if after {
			text = norm.NFC.String(text)
		}
		if !t.IsControl(id) {
			pick(after, &alwaysN, &always).add(text, id, rule)
		}
		pick(after, &specialN, &special).add(text, id, rule)
	}
	for _, m := range []*matcher{&always, &special, &alwaysN, &specialN} {
		m.finish()
	}
	t.always, t.special, t.alwaysN, t.specialN = &always, &special, &alwaysN, &specialN
}

func pick(cond bool, yes, no *matcher) *matcher {
	if cond {
		return yes
	}
	return no
}

func (m *matcher) add(text string, id int32, rule AddedToken) {
	m.texts, m.ids, m.rules = append(m.texts, text), append(m.ids, id), append(m.rules, rule)
}

// finish sorts the texts, keeping the lowest id of those that are equal.
func (m *matcher) finish() {
	by := make([]int, len(m.texts))
	for i := range by {
		by[i] = i
	}
	slices.SortStableFunc(by, func(a, b int) int { return strings.Compare(m.texts[a], m.texts[b]) })
	var out matcher
	for k, i := range by {
		if k == 0 || m.texts[i] != m.texts[by[k-1]] {
			out.add(m.texts[i], m.ids[i], m.rules[i])
		}
	}
	at := 0
	for b := range 256 {
		out.first[b] = int32(at)
		for at < len(out.texts) && out.texts[at][0] == byte(b) {
			at++
		}
	}
	out.first[256] = int32(at)
	*m = out
}

// find returns the token that is spelled text, -1 if there is none.
func (m *matcher) find(text string) int32 {
	if k, ok := slices.BinarySearch(m.texts, text); ok {
		return m.ids[k]
	}
	return -1
}

// longestAt returns the index of the longest text that s has at byte i, whose
// rule allows it there and that refuse, which may be nil, does not refuse; -1
// if there is none.
//
// The texts that s[i:] begins with lie in sorted order, each a prefix of the
// next; narrowing the range byte by byte passes all of them.
func (m *matcher) longestAt(s string, i int, refuse func(from, to int) bool) int {
	lo, hi := int(m.first[s[i]]), int(m.first[int(s[i])+1])
	best := -1
	for n := 1; lo < hi; n++ {
		if len(m.texts[lo]) == n {
			if m.allowed(lo, s, i) && (refuse == nil || !refuse(i, i+n)) {
				best = lo
			}
			lo++
		}
		if i+n >= len(s) {
			break
		}
		c := s[i+n]
		// All of lo to hi are longer than n and agree on n bytes.
		lo += lowerBound(m.texts[lo:hi], n, c)
		hi = lo + upperBound(m.texts[lo:hi], n, c)
	}
	return best
}

// lowerBound returns the index of the first text whose byte n is c or more.
func lowerBound(texts []string, n int, c byte) int {
	lo, hi := 0, len(texts)
	for lo < hi {
		mid := (lo + hi) / 2
		if texts[mid][n] < c {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// upperBound returns the index after the last text whose byte n is c or less.
func upperBound(texts []string, n int, c byte) int {
	lo, hi := 0, len(texts)
	for lo < hi {
		mid := (lo + hi) / 2
		if texts[mid][n] <= c {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (m *matcher) allowed(k int, s string, i int) bool {
	if !m.rules[k].SingleWord {
		return true
	}
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[i+len(m.texts[k]):])
	return !(i > 0 && isWordRune(before)) && !(i+len(m.texts[k]) < len(s) && isWordRune(after))
}

func isWordRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// split calls emit with the parts of s in order: stretches of text with id -1,
// and whole tokens with their id and the text they stand for. Tokens that would
// cover bytes which refuse, unless it is nil, does not give free are text.
func (m *matcher) split(s string, refuse func(from, to int) bool, emit func(part string, id int32)) {
	if len(m.texts) == 0 {
		if s != "" {
			emit(s, -1)
		}
		return
	}
	done := 0 // all before is emitted
	for i := 0; i < len(s); {
		if m.first[s[i]] == m.first[int(s[i])+1] {
			i++
			continue
		}
		k := m.longestAt(s, i, refuse)
		if k < 0 {
			i++
			continue
		}
		from, end := i, i+len(m.texts[k])
		if m.rules[k].LStrip {
			from = done + len(strings.TrimRightFunc(s[done:i], unicode.IsSpace))
		}
		if m.rules[k].RStrip {
			end = len(s) - len(strings.TrimLeftFunc(s[end:], unicode.IsSpace))
		}
		if done < from {
			emit(s[done:from], -1)
		}
		emit(s[from:end], m.ids[k])
		i, done = end, end
	}
	if done < len(s) {
		emit(s[done:], -1)
	}
}
