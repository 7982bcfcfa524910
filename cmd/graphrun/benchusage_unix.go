//go:build unix

package main

import (
	"runtime"
	"syscall"
	"time"
)

// peakRSS returns the most memory the process has had resident, in MB.
func peakRSS() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	bytes := float64(u.Maxrss)
	if runtime.GOOS != "darwin" && runtime.GOOS != "ios" { // there it counts bytes, elsewhere KiB
		bytes *= 1024
	}
	return bytes / 1e6
}

// cpuTime returns the processor time the process has used, all threads.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
