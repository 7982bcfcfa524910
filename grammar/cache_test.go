package grammar

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

func TestCache(t *testing.T) {
	c := NewCache(2)
	a, err := c.Schema([]byte(`{"type":"null"}`))
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := c.Schema([]byte(`{"type":"null"}`)); again != a {
		t.Error("the same schema is compiled twice")
	}
	if o := c.JSONObject(); o == a || c.JSONObject() != o {
		t.Error("JSONObject is not kept")
	}
	if _, err := c.Schema([]byte(`{"type":"nul"}`)); err == nil {
		t.Error("an error is lost")
	}
	if _, err := c.GBNF(`root ::= "x"`); err != nil {
		t.Fatal(err)
	}
	if again, _ := c.Schema([]byte(`{"type":"null"}`)); again == a || c.order.Len() != 2 || len(c.known) != 2 {
		t.Errorf("%d grammars are kept, want 2", c.order.Len())
	}
}

// Matchers of one grammar run side by side, over a machine so small that it
// forgets all the time, and allow what one alone allows.
func TestMatchersTogether(t *testing.T) {
	v := testVocab(t, jsonWords...)
	g, err := ParseGBNF(grammars["json"])
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 8 {
		wg.Go(func() {
			m, r := g.Matcher(v), rand.New(rand.NewPCG(uint64(i), 5))
			for step := range 60 {
				if m.Done() {
					return
				}
				ids := allowed(maskOf(m))
				if len(ids) == 0 {
					errs <- fmt.Errorf("no token is allowed: %v", m.Err())
					return
				}
				if err := m.Accept(ids[r.IntN(len(ids))]); err != nil {
					errs <- err
					return
				}
				if i == 0 && step%7 == 0 {
					m.s.mu.Lock()
					m.s.m.forget()
					m.s.mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

// A machine that forgets in the middle of texts still gives exact masks.
func TestForget(t *testing.T) {
	v := testVocab(t, jsonWords...)
	g, err := FromSchema([]byte(schemas[7]))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 4))
	m := g.Matcher(v)
	for step := range 60 {
		if m.Done() {
			m.Reset()
		}
		ids := checkMask(t, m, fmt.Sprint("step ", step))
		if err := m.Accept(ids[r.IntN(len(ids))]); err != nil {
			t.Fatal(err)
		}
		if step%3 == 0 {
			m.s.m.forget()
		}
	}
}
