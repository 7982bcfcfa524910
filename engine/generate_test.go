package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// answer generates after the given prompt and returns the text, the tokens and
// the last error. It checks what holds for every answer.
func answer(t testing.TB, s *Session, o GenerateOptions) (string, []Token, error) {
	t.Helper()
	var text strings.Builder
	var toks []Token
	for tok, err := range s.Generate(t.Context(), o) {
		if err != nil {
			return text.String(), toks, err
		}
		if !utf8.ValidString(tok.Text) {
			t.Errorf("token %d has half a character: %q", tok.ID, tok.Text)
		}
		text.WriteString(tok.Text)
		toks = append(toks, tok)
	}
	return text.String(), toks, nil
}

func promptOf(t testing.TB, m *Model, tokens ...int32) *Session {
	t.Helper()
	s := m.NewSession()
	if err := s.Append(t.Context(), tokens...); err != nil {
		t.Fatal(err)
	}
	return s
}

func idsOf(toks []Token) []int32 {
	var out []int32
	for _, k := range toks {
		if k.ID != NoToken {
			out = append(out, k.ID)
		}
	}
	return out
}

// TestStopStrings cuts an answer at stop strings that begin and end anywhere
// in its tokens.
func TestStopStrings(t *testing.T) {
	const full = "abcabdabcabcxyz"
	for _, stops := range [][]string{
		{"abd"}, {"abcabcx"}, {"abcabcabc"}, {"z"}, {"zz"}, {"xyz"}, {"a"}, {"abcabcxyz!"}, {"nothing"},
		{"cab", "bda"}, {"dabc", "abcx"}, {"yzz", "xyzz", "cxyzz"}, {full}, {full + "a"},
	} {
		want, reason := full, StopEOG
		for _, s := range stops {
			if i := strings.Index(full, s); i >= 0 && i < len(want) {
				want, reason = full[:i], StopString
			}
		}
		m := fakeModel(t, scripted(1, letters(full), tokEOT), 0, Options{Context: 100})
		s := promptOf(t, m, tokBOS)
		got, toks, err := answer(t, s, GenerateOptions{Stop: stops})
		if err != nil || s.StopReason() != reason {
			t.Errorf("%q: reason %q, %v, want %q", stops, s.StopReason(), err, reason)
		}
		// A stop string that ends before another begins counts, wherever the
		// other one would have begun.
		if reason == StopString && len(stops) == 1 && got != want || reason == StopEOG && got != want {
			t.Errorf("%q: text %q, want %q", stops, got, want)
		}
		for _, x := range stops {
			if strings.Contains(got, x) {
				t.Errorf("%q: the text %q has a stop string", stops, got)
			}
		}
		// Nothing that was certain is held back: text lags by less than the
		// longest stop string.
		longest := 0
		for _, x := range stops {
			longest = max(longest, len(x))
		}
		shown := 0
		for i, k := range toks {
			if shown += len(k.Text); k.ID != NoToken && reason == StopEOG && shown < i+1-(longest-1) {
				t.Errorf("%q: %d bytes after %d tokens", stops, shown, i+1)
			}
		}
	}
}

// TestStopSplits checks the stopper for every way to cut a text in three.
func TestStopSplits(t *testing.T) {
	const text = "one two tw two threé fin"
	for _, stop := range []string{"two t", "threé", "é", "fin", "final", "x", "o", "tw two"} {
		want := text
		stopped := false
		if i := strings.Index(text, stop); i >= 0 {
			want, stopped = text[:i], true
		}
		for i := 0; i <= len(text); i++ {
			for j := i; j <= len(text); j++ {
				if !utf8.ValidString(text[:i]) || !utf8.ValidString(text[:j]) {
					continue
				}
				p, err := newStopper([]string{stop})
				if err != nil {
					t.Fatal(err)
				}
				got, end := "", false
				for _, part := range []string{text[:i], text[i:j], text[j:]} {
					if end {
						break
					}
					var out string
					out, end = p.push(part)
					got += out
				}
				if !end {
					got += p.flush()
				}
				if got != want || end != stopped {
					t.Fatalf("stop %q, cuts %d and %d: %q, %v, want %q", stop, i, j, got, end, want)
				}
			}
		}
	}
	for _, bad := range []string{"", "\xa9", "a\xff"} {
		if _, err := newStopper([]string{"ok", bad}); err == nil {
			t.Errorf("stop string %q is accepted", bad)
		}
	}
}

// TestCharactersOverTokens is TK-14: characters whose bytes are tokens of their
// own come whole, a byte that is none becomes U+FFFD.
func TestCharactersOverTokens(t *testing.T) {
	for _, c := range []struct {
		bytes string
		want  []string // text with each token, and at the end
	}{
		{"\xea\xb9\xb0", []string{"", "", "\uae70", ""}},
		{"\xb0", []string{"\ufffd", ""}},
		{"\xf0\x9f\x98\x80", []string{"", "", "", "😀", ""}},
		{"a\xeab", []string{"a", "", "\ufffdb", ""}},
		{"\xf0\x9f", []string{"", "", "\ufffd\ufffd"}},
	} {
		m := fakeModel(t, scripted(1, letters(c.bytes), tokEOS), 0, Options{Context: 100})
		s := promptOf(t, m, tokBOS)
		_, toks, err := answer(t, s, GenerateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range toks {
			got = append(got, k.Text)
		}
		if len(got) == len(c.want)-1 {
			got = append(got, "")
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.bytes, got, c.want)
		}
		// SV-02: a limit inside the character gives a mark, not half of it.
		for n := 1; n < len(c.bytes); n++ {
			s := promptOf(t, m, tokBOS)
			text, toks, err := answer(t, s, GenerateOptions{MaxTokens: n})
			if err != nil || len(toks) != n || s.StopReason() != StopLength || text == "" {
				t.Errorf("%q cut at %d: %q, %d tokens, %s, %v", c.bytes, n, text, len(toks), s.StopReason(), err)
			}
			s.Close()
		}
		s.Close()
	}
}

// TestEndOfGeneration is CT-08.
func TestEndOfGeneration(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    int32
		o      GenerateOptions
		reason StopReason
		n      int
	}{
		{"eos", tokEOS, GenerateOptions{}, StopEOG, 2},
		{"eot, not the eos of the vocabulary", tokEOT, GenerateOptions{}, StopEOG, 2},
		{"an ordinary token", tokA, GenerateOptions{MaxTokens: 9}, StopLength, 9},
		{"one of the caller's", tokA, GenerateOptions{EOG: []int32{5, tokA}}, StopEOG, 2},
		{"ignored", tokEOT, GenerateOptions{IgnoreEOG: true, MaxTokens: 9}, StopLength, 9},
		{"the caller's ignored", tokA, GenerateOptions{IgnoreEOG: true, EOG: []int32{tokA}, MaxTokens: 9}, StopLength, 9},
	} {
		m := fakeModel(t, scripted(1, letters("xy"), c.end), 0, Options{Context: 100})
		s := promptOf(t, m, tokBOS)
		text, toks, err := answer(t, s, c.o)
		if err != nil || s.StopReason() != c.reason || len(toks) != c.n {
			t.Errorf("%s: %d tokens, %q, %v", c.name, len(toks), s.StopReason(), err)
		}
		if !strings.HasPrefix(text, "xy") || strings.ContainsAny(text, "<|") {
			t.Errorf("%s: text %q", c.name, text)
		}
		if c.reason == StopEOG && !slices.Equal(s.Tokens(), append([]int32{tokBOS}, letters("xy")...)) {
			t.Errorf("%s: the session holds %v", c.name, s.Tokens())
		}
	}
}

func TestSpecialText(t *testing.T) {
	m := fakeModel(t, scripted(1, letters("x"), tokEOT), 0, Options{Context: 100})
	text, _, _ := answer(t, promptOf(t, m, tokBOS), GenerateOptions{Special: true, IgnoreEOG: true, MaxTokens: 2})
	if text != "x<|eot|>" {
		t.Errorf("text %q", text)
	}
}

// TestNeverEnds is KV-03: a model that runs in a circle fills the context and
// no more.
func TestNeverEnds(t *testing.T) {
	m := fakeModel(t, &fake{script: chain(map[int32]int32{1: tokA, tokA: tokA + 1, tokA + 1: tokA})}, 0, Options{Context: 64})
	s := promptOf(t, m, 1, 1, 1)
	text, toks, err := answer(t, s, GenerateOptions{})
	if err != nil || len(toks) != 61 || s.StopReason() != StopLength || s.Len() != 64 {
		t.Errorf("%d tokens, length %d, %q, %v", len(toks), s.Len(), s.StopReason(), err)
	}
	if text != strings.Repeat("ab", 30)+"a" {
		t.Errorf("text %q", text)
	}
	// A full context has no room for an answer.
	if _, toks, err := answer(t, s, GenerateOptions{}); err != nil || len(toks) != 0 || s.StopReason() != StopLength {
		t.Errorf("%d tokens, %q, %v", len(toks), s.StopReason(), err)
	}
}

// TestSameRequestAgain is KV-08.
func TestSameRequestAgain(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{Context: 200})
	s := m.NewSession()
	prompt := randomText(20, 1)
	ask := func(p []int32, n int) (int, []int32) {
		t.Helper()
		cached, err := s.Prompt(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		_, toks, err := answer(t, s, GenerateOptions{MaxTokens: n, IgnoreEOG: true})
		if err != nil {
			t.Fatal(err)
		}
		return cached, idsOf(toks)
	}
	_, first := ask(prompt, 10)
	if cached, again := ask(prompt, 10); cached != 19 || !slices.Equal(again, first) {
		t.Errorf("%d cached, %v, want 19, %v", cached, again, first)
	}
	cached, short := ask(prompt[:12], 10)
	s.Reset()
	if _, want := ask(prompt[:12], 10); cached != 11 || !slices.Equal(short, want) {
		t.Errorf("%d cached, %v, want 11, %v", cached, short, want)
	}
	if cached, one := ask(prompt, 1); cached != 12 || !slices.Equal(one, first[:1]) {
		t.Errorf("%d cached, %v, want 12, %v", cached, one, first[:1])
	}
	// Going on without a prompt gives the rest.
	if _, toks, err := answer(t, s, GenerateOptions{MaxTokens: 9, IgnoreEOG: true}); err != nil || !slices.Equal(idsOf(toks), first[1:]) {
		t.Errorf("%v, %v, want %v", idsOf(toks), err, first[1:])
	}
	// After a cut in the middle the last token is computed again.
	if err := s.Rewind(20); err != nil {
		t.Fatal(err)
	}
	if _, toks, err := answer(t, s, GenerateOptions{MaxTokens: 10, IgnoreEOG: true}); err != nil || !slices.Equal(idsOf(toks), first) {
		t.Errorf("%v, %v, want %v", idsOf(toks), err, first)
	}
}

// TestGenerateAfterLostWindow cuts where the ring cannot follow by one token.
func TestGenerateAfterLostWindow(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 10, Options{Context: 1024, Chunk: 64})
	text := randomText(320, 1)
	s := promptOf(t, m, text...)
	if err := s.Rewind(s.seq.Lowest()); err != nil {
		t.Fatal(err)
	}
	n := s.Len()
	_, toks, err := answer(t, s, GenerateOptions{MaxTokens: 5, IgnoreEOG: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, want, err := answer(t, promptOf(t, m, text[:n]...), GenerateOptions{MaxTokens: 5, IgnoreEOG: true})
	if err != nil || !slices.Equal(idsOf(toks), idsOf(want)) {
		t.Errorf("%v, %v, want %v", idsOf(toks), err, idsOf(want))
	}
}

func TestGenerateEmpty(t *testing.T) {
	m := fakeModel(t, &fake{script: hashed}, 0, Options{})
	s := m.NewSession()
	if _, _, err := answer(t, s, GenerateOptions{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("got %v", err)
	}
	s = promptOf(t, m, 1)
	for _, o := range []GenerateOptions{{MaxTokens: -1}, {Top: -1}, {Stop: []string{""}}, {SampleOptions: SampleOptions{Temperature: -1}}} {
		if _, toks, err := answer(t, s, o); err == nil || len(toks) > 0 {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestCancel(t *testing.T) {
	f := &fake{script: hashed}
	m := fakeModel(t, f, 0, Options{Context: 500, Chunk: 64})
	s := promptOf(t, m, randomText(10, 1)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range s.Generate(ctx, GenerateOptions{IgnoreEOG: true}) {
		if last = err; err != nil {
			break
		}
		if n++; n == 3 {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) || n != 3 || s.StopReason() != StopCancelled || s.Len() != 13 {
		t.Errorf("%d tokens, length %d, %q, %v", n, s.Len(), s.StopReason(), last)
	}
	// The same answer goes on as if nothing had been.
	_, rest, err := answer(t, s, GenerateOptions{IgnoreEOG: true, MaxTokens: 3})
	s.Close()
	_, want, _ := answer(t, promptOf(t, m, randomText(10, 1)...), GenerateOptions{IgnoreEOG: true, MaxTokens: 6})
	if err != nil || !slices.Equal(idsOf(rest), idsOf(want)[3:]) {
		t.Errorf("%v, %v, want %v", idsOf(rest), err, idsOf(want)[3:])
	}
}

func TestLeaveEarly(t *testing.T) {
	m := fakeModel(t, scripted(1, letters("abcdef"), tokEOS), 0, Options{Context: 100})
	s := promptOf(t, m, tokBOS)
	for tok, err := range s.Generate(t.Context(), GenerateOptions{}) {
		if err != nil || tok.Text == "b" {
			break
		}
	}
	if s.Len() != 3 || s.Computed() != 2 || s.StopReason() != StopNone {
		t.Errorf("length %d, %d computed, %q", s.Len(), s.Computed(), s.StopReason())
	}
	if text, _, err := answer(t, s, GenerateOptions{}); text != "cdef" || err != nil {
		t.Errorf("the rest is %q, %v", text, err)
	}
	if st := s.Stats(); st.Generated != 4 || st.Prompt != 1 || st.GenerateTime <= 0 || st.GenerateRate() <= 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestFirstSpace: the space of the first piece belongs to the vocabulary when
// nothing but control tokens comes before, else to the text.
func TestFirstSpace(t *testing.T) {
	hello := []int32{tokWords, tokWords + 1}
	m := fakeModel(t, scripted(1, hello, tokEOS), 0, Options{Context: 100})
	if text, _, _ := answer(t, promptOf(t, m, tokBOS), GenerateOptions{}); text != "Hello world" {
		t.Errorf("after BOS: %q", text)
	}
	m = fakeModel(t, scripted(2, hello, tokEOS), 0, Options{Context: 100})
	if text, _, _ := answer(t, promptOf(t, m, tokBOS, tokA), GenerateOptions{}); text != " Hello world" {
		t.Errorf("after text: %q", text)
	}
}

func TestLogprobs(t *testing.T) {
	f := &fake{script: func(_, _ []int32, logits []float32) {
		for i := range logits {
			logits[i] = -float32(i%50) / 10
		}
		logits[tokA], logits[tokA+1] = 3, 3
	}}
	m := fakeModel(t, f, 0, Options{Context: 100, MaxSeqs: 3})
	row := make([]float32, m.limits.Vocab)
	f.script(nil, nil, row)
	sum := 0.0
	for _, x := range row {
		sum += math.Exp(float64(x))
	}
	want := 3 - math.Log(sum)
	// Penalties and temperature do not change what is reported.
	o := GenerateOptions{MaxTokens: 2, Top: 3, SampleOptions: SampleOptions{Temperature: 0.01, TopK: 1, RepeatPenalty: 1}}
	_, toks, err := answer(t, promptOf(t, m, 1), o)
	if err != nil || len(toks) != 2 {
		t.Fatal(toks, err)
	}
	for _, k := range toks {
		if k.ID != tokA || math.Abs(k.Logprob-want) > 1e-6 || len(k.Top) != 3 || k.Top[0].ID != tokA || k.Top[1].ID != tokA+1 || k.Top[2].ID != 0 {
			t.Errorf("%+v, want log-probability %v", k, want)
		}
	}
	_, toks, _ = answer(t, promptOf(t, m, 1), GenerateOptions{MaxTokens: 1, Logprobs: true})
	if math.Abs(toks[0].Logprob-want) > 1e-6 || toks[0].Top != nil {
		t.Errorf("%+v", toks[0])
	}
	_, toks, _ = answer(t, promptOf(t, m, 1), GenerateOptions{MaxTokens: 1, Top: 1 << 30})
	if len(toks[0].Top) != len(row) {
		t.Errorf("%d of %d tokens", len(toks[0].Top), len(row))
	}
	for i := 1; i < len(row); i++ {
		a, b := toks[0].Top[i-1], toks[0].Top[i]
		if a.Logprob < b.Logprob || a.Logprob == b.Logprob && a.ID > b.ID {
			t.Fatalf("top %d and %d are not in order: %v %v", i-1, i, a, b)
		}
	}
}

// TestSuppressedByVocabulary: ids the vocabulary suppresses are never chosen.
func TestSuppressedByVocabulary(t *testing.T) {
	m := fakeModel(t, scripted(1, letters("q"), tokEOS), 0, Options{Context: 100})
	m.Tokenizer.Vocab().Suppress = []int32{letters("q")[0], 1 << 20}
	_, toks, err := answer(t, promptOf(t, m, tokBOS), GenerateOptions{MaxTokens: 1})
	if err != nil || toks[0].ID != 0 {
		t.Errorf("%v, %v", toks, err)
	}
}
