// Package blockwrite writes files of weights in large aligned blocks.
//
// Linux keeps what was written in memory in pages as large as the writes: from
// 2 MiB on, aligned, they are the processor's large pages, and a model that is
// mapped from them opens and reads faster than one in pages of 4 KiB. What is
// downloaded, quantized or converted is usually run next, from there.
package blockwrite

import "io"

// Size is the number of bytes in a block: two large pages of amd64 and of most
// arm64 systems.
const Size = 4 << 20

// Writer collects what is written and passes it on in blocks that begin at
// multiples of Size in the file. The zero value is not usable; see New.
type Writer struct {
	w   io.Writer
	at  int64 // position in the file of the first byte of buf
	buf []byte
	err error // of an earlier write; what was in buf then is lost
}

// New returns a Writer to w, whose next byte has the position at in its file.
func New(w io.Writer, at int64) *Writer { return &Writer{w: w, at: at} }

// Write implements io.Writer. Bytes may be passed on later; see Flush.
func (b *Writer) Write(p []byte) (n int, err error) {
	for len(p) > 0 && b.err == nil {
		take := min(len(p), Size-int(b.at%Size)-len(b.buf))
		switch {
		case len(b.buf) == 0 && b.at%Size == 0 && len(p) >= Size:
			take = len(p) / Size * Size
			b.pass(p[:take])
		default:
			if b.buf == nil {
				b.buf = make([]byte, 0, Size)
			}
			if b.buf = append(b.buf, p[:take]...); (b.at+int64(len(b.buf)))%Size == 0 {
				b.pass(b.buf)
				b.buf = b.buf[:0]
			}
		}
		if b.err != nil {
			break
		}
		n, p = n+take, p[take:]
	}
	return n, b.err
}

// Flush passes on what is left. Writing may go on.
func (b *Writer) Flush() error {
	if b.err == nil && len(b.buf) > 0 {
		b.pass(b.buf)
		b.buf = b.buf[:0]
	}
	return b.err
}

func (b *Writer) pass(p []byte) {
	n, err := b.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	b.at += int64(n)
	b.err = err
}
