package engine

import "golang.org/x/sys/windows"

// canTake reports whether the system grants n bytes of memory at once. Go's
// allocator ends the process where it does not.
func canTake(n int) error {
	at, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return err
	}
	return windows.VirtualFree(at, 0, windows.MEM_RELEASE)
}
