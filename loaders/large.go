package loaders

import "unsafe"

// largeFrom is the size of a slice, in bytes, from which large pages are worth
// asking for.
const largeFrom = 1 << 18

// largeSlice returns a slice of n zeros of T. The tables of a vocabulary are some
// megabytes each, written once from end to end or in no order: in small pages
// they take a fault for every 4 KiB, which is most of the time of making them,
// above all in a virtual machine.
func largeSlice[T any](n int) []T {
	s := make([]T, n)
	if size := n * int(unsafe.Sizeof(*new(T))); size >= largeFrom {
		largePagesAround(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), size))
	}
	return s
}

// largeString returns a copy of b.
func largeString(b []byte) string {
	s := largeSlice[byte](len(b))
	copy(s, b)
	return unsafe.String(unsafe.SliceData(s), len(s)) // s is not changed again
}
