package loaders

import (
	"context"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// WriteChunks writes total bytes to w: pieces of size bytes, the last one
// shorter, which fill makes in several goroutines ahead of the writing, and which
// are written in order. workers is their number, 0 is one for each processor;
// each has two buffers of size bytes. It ends with the first error, fill's, w's
// or ctx's, when all workers have.
func WriteChunks(ctx context.Context, w io.Writer, total, size, workers int, fill func(buf []byte, chunk int) error) error {
	if total == 0 {
		return ctx.Err()
	}
	size = min(size, total)
	chunks := (total + size - 1) / size
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	workers = min(workers, chunks)

	type piece struct {
		buf []byte
		err error
	}
	// Each worker fills one buffer while the other is written.
	free, ready := make([]chan []byte, workers), make([]chan piece, workers)
	for j := range workers {
		free[j], ready[j] = make(chan []byte, 2), make(chan piece, 1)
		for range min(2, chunks) {
			free[j] <- make([]byte, size)
		}
	}
	quit := make(chan struct{})
	var group errgroup.Group
	for j := range workers {
		group.Go(func() error {
			for c := j; c < chunks; c += workers {
				var p piece
				select {
				case p.buf = <-free[j]:
				case <-quit:
					return nil
				}
				p.buf = p.buf[:min(size, total-c*size)]
				p.err = fill(p.buf, c)
				select {
				case ready[j] <- p:
				case <-quit:
					return nil
				}
				if p.err != nil {
					return nil
				}
			}
			return nil
		})
	}
	defer func() {
		close(quit)
		group.Wait() //nolint:errcheck // errors travel with the pieces
	}()
	for c := range chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := <-ready[c%workers]
		if p.err != nil {
			return p.err
		}
		if _, err := w.Write(p.buf); err != nil {
			return err
		}
		free[c%workers] <- p.buf[:size]
	}
	return nil
}
