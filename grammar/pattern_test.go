package grammar

import "testing"

// TestPattern: a pattern means what ECMA-262 says with the flag u, also where
// package regexp reads the same text differently.
func TestPattern(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		match   []string
		not     []string // both nil: refused
	}{
		{`^a{00}$`, []string{""}, []string{"a", "a{00}"}},
		{`^a{1,02}$`, []string{"a", "aa"}, []string{"", "aaa", "a{1,02}"}},
		{`^[[:x]$`, []string{"[", ":", "x"}, []string{"]", "a"}},
		{`^[[:alpha:]]$`, nil, nil}, // a class and a ] that stands alone
		{`^\s$`, []string{" ", "\v", "\u00a0", "\ufeff", "\u2028"}, []string{"", "a", "\u200b"}},
		{`^\S$`, []string{"a", "\u200b"}, []string{" ", "\u00a0"}},
		{`^.$`, []string{"a", "\u0085", "\U0001F600"}, []string{"", "\n", "\r", "\u2028", "\u2029", "ab"}},
		{`^[^]$`, []string{"a", "\n"}, []string{"", "ab"}},
		{`^[]$`, nil, []string{"", "a"}},
		{`^[^a-c\d]+$`, []string{"d", "xyz"}, []string{"", "a", "x1"}},
		{`b`, []string{"b", "abc"}, []string{"", "a"}},
		{`^a|b$`, []string{"a", "ax", "xb"}, []string{"xa", "bx"}},
		{`^(?<n>ab?){2,}$`, []string{"aab", "abab", "aaa"}, []string{"a", "ab", "bb"}},
		{`^(a*)*$`, []string{"", "aaa"}, []string{"b"}},
		{`^\u{1F600}\x41\u0042\cA?$`, nil, nil},
		{`^\u{1F600}\x41\u0042$`, []string{"\U0001F600AB"}, []string{"AB"}},
		{`^\p{Lu}\P{L}$`, []string{"A1", "Ä-"}, []string{"a1", "AA"}},
		{`^[\-\]\\^]$`, []string{"-", "]", `\`, "^"}, []string{"a"}},
		{`^\w\W\d\D$`, []string{"a-1x"}, []string{"ä-1x", "aa1x"}},
	} {
		r, err := goPattern(tt.pattern)
		if tt.match == nil && tt.not == nil {
			if err == nil {
				t.Errorf("%s: no error", tt.pattern)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		for _, s := range tt.match {
			if !r.MatchString(s) {
				t.Errorf("%s does not match %q", tt.pattern, s)
			}
		}
		for _, s := range tt.not {
			if r.MatchString(s) {
				t.Errorf("%s matches %q", tt.pattern, s)
			}
		}
	}
}
