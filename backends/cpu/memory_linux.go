package cpu

import "syscall"

// adviseLarge asks for large pages. Where the system refuses, they are small.
func adviseLarge(b []byte) { _ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) }
