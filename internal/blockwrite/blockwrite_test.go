package blockwrite

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// recorder remembers where each write began.
type recorder struct {
	bytes.Buffer
	from  int64
	marks []int64
	fail  int // writes until an error, 0 is never
}

var errFull = errors.New("full")

func (r *recorder) Write(p []byte) (int, error) {
	if r.fail > 0 {
		if r.fail--; r.fail == 0 {
			n, _ := r.Buffer.Write(p[:len(p)/2])
			return n, errFull
		}
	}
	r.marks = append(r.marks, r.from+int64(r.Len()))
	return r.Buffer.Write(p)
}

// TestWriter: what comes out is what went in, in blocks that begin at multiples
// of Size, whatever the sizes of the writes and wherever the file began.
func TestWriter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, from := range []int64{0, 1, Size - 1, Size, 3*Size + 77} {
		src := make([]byte, 5*Size+r.IntN(Size))
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		rec := &recorder{from: from}
		w := New(rec, from)
		for p := src; len(p) > 0; {
			n := min(len(p), r.IntN(1<<uint(r.IntN(24))+1))
			got, err := w.Write(p[:n])
			if err != nil || got != n {
				t.Fatalf("Write of %d: %d, %v", n, got, err)
			}
			p = p[n:]
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(rec.Bytes(), src) {
			t.Fatalf("from %d: other bytes came out", from)
		}
		for i, at := range rec.marks {
			if i > 0 && at%Size != 0 {
				t.Errorf("from %d: write %d begins at %d, no multiple of %d", from, i, at, Size)
			}
		}
	}
}

// TestWriterError: an error of the file is returned by the write that met it and
// by all after it.
func TestWriterError(t *testing.T) {
	for _, first := range []int{1, Size} {
		w := New(&recorder{fail: 2}, 0)
		if _, err := w.Write(make([]byte, Size)); err != nil {
			t.Fatal(err)
		}
		n, err := w.Write(make([]byte, first))
		if first == 1 {
			if err != nil || n != 1 {
				t.Fatalf("%d, %v", n, err)
			}
			err = w.Flush()
		}
		if !errors.Is(err, errFull) {
			t.Errorf("error %v, want %v", err, errFull)
		}
		if _, err := w.Write([]byte{1}); !errors.Is(err, errFull) {
			t.Errorf("later write: error %v, want %v", err, errFull)
		}
		if err := w.Flush(); !errors.Is(err, errFull) {
			t.Errorf("later flush: error %v, want %v", err, errFull)
		}
	}
	w := New(short{}, 0)
	if _, err := w.Write(make([]byte, Size)); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("short write: %v", err)
	}
}

type short struct{}

func (short) Write(p []byte) (int, error) { return len(p) / 2, nil }
