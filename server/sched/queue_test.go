package sched

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestQueueTurns: the partition that got least is next, in a partition who came
// first, and a partition that rested has not saved up turns.
func TestQueueTurns(t *testing.T) {
	var q queue
	q.init(100)
	number := uint64(0)
	push := func(part string, n int) {
		t.Helper()
		for range n {
			number++
			if _, err := q.push(&request{Request: Request{Partition: part, ID: fmt.Sprint(part, number)}, number: number}); err != nil {
				t.Fatal(err)
			}
		}
	}
	serve := func(n int) (order string) {
		for range n {
			q.each(func(r *request) bool {
				q.remove(r)
				r.part.served += 10
				order += r.part.name
				return false
			})
		}
		return order
	}
	push("a", 6)
	push("b", 2)
	if got := serve(5); got != "ababa" {
		t.Errorf("served %s, want ababa", got)
	}
	// c was never there, and b rested: both go on from where a is, not before.
	push("c", 4)
	push("b", 4)
	if got := serve(9); got != "acbacbacb" && got != "abcabcabc" {
		t.Errorf("served %s, want the three in turn", got)
	}
	if got := serve(2); q.n != 0 || len(got) != 2 {
		t.Errorf("%d are left, served %s", q.n, got)
	}
	q.tidy()
	if len(q.parts) != 0 || len(q.order) != 0 {
		t.Error("partitions without requests are kept")
	}
}

// TestQueueFull: one partition cannot keep the others out.
func TestQueueFull(t *testing.T) {
	var q queue
	q.init(6)
	push := func(part string) (*request, error) {
		return q.push(&request{Request: Request{Partition: part}, number: uint64(q.n)})
	}
	for range 6 {
		if out, err := push("a"); err != nil || out != nil {
			t.Fatal(out, err)
		}
	}
	var full *QueueFullError
	if _, err := push("a"); !errors.As(err, &full) || full.Queued != 6 || full.Max != 6 {
		t.Fatalf("got %v", err)
	}
	last := q.parts["a"].waiting[5]
	for i := range 3 {
		out, err := push("b")
		if err != nil || out == nil || out.part.name != "a" || i == 0 && out != last {
			t.Fatalf("request %d of b: %v leaves, %v", i, out, err)
		}
	}
	if _, err := push("b"); !errors.As(err, &full) {
		t.Errorf("b gets more than a: %v", err)
	}
	if out, err := push("c"); err != nil || out == nil {
		t.Errorf("c finds no place: %v", err)
	}
	n := 0
	q.each(func(r *request) bool { n++; return true })
	if n != 6 || q.n != 6 {
		t.Errorf("%d wait, %d counted", n, q.n)
	}
	if !slices.IsSortedFunc(q.parts["a"].waiting, func(a, b *request) int { return int(a.number) - int(b.number) }) {
		t.Error("a partition is out of order")
	}
}
