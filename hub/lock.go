package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// errBusy says that another program holds a lock.
var errBusy = errors.New("locked")

// lockEvery is the time between two looks at a lock that is held.
const lockEvery = 100 * time.Millisecond

// acquire takes the lock that the file stands for, and waits until another
// program gives it up; the system does that too when a program ends. wait is
// called once if there is something to wait for.
func acquire(ctx context.Context, path string, wait func()) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	for waited := false; ; {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("hub: %w", err)
		}
		err = lockFile(f)
		if err == nil {
			// Some tools remove the file when they are done: who then holds a
			// lock on the removed one holds nothing.
			if mine, err1 := f.Stat(); err1 == nil {
				if now, err2 := os.Stat(path); err2 == nil && os.SameFile(mine, now) {
					return func() { f.Close() }, nil
				}
			}
			f.Close()
			continue
		}
		f.Close()
		if !errors.Is(err, errBusy) {
			return nil, fmt.Errorf("hub: lock %s: %w", path, err)
		}
		if !waited {
			waited = true
			wait()
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockEvery):
		}
	}
}
