package kern

import (
	"syscall"
	"time"
	"unsafe"
)

// cpuTime returns the processor time of the calling thread, which on a busy
// machine says more than the clock on the wall.
func cpuTime() time.Duration {
	const threadCPUTime = 3
	var ts syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
