package engine

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// available returns the bytes this process can still take, counting file pages
// that the kernel can drop, and where the bound is from: the machine's
// MemAvailable or the memory limit of a control group, whichever is lower.
func available() (int, string) { return availableIn(os.ReadFile) }

// availableIn is available with the file system given.
func availableIn(read func(name string) ([]byte, error)) (int, string) {
	best, limit := 0, ""
	note := func(n int, from string) {
		if best == 0 || n < best {
			best, limit = max(n, 1), from
		}
	}
	if b, err := read("/proc/meminfo"); err == nil {
		if kib, ok := field(b, "MemAvailable:"); ok {
			note(kib*1024, "MemAvailable")
		}
	}
	b, err := read("/proc/self/cgroup")
	if err != nil {
		return best, limit
	}
	for line := range strings.Lines(string(b)) {
		// "0::/group" in version 2, "5:memory:/group" in version 1.
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		root, maxName, useName, fileKeys := "/sys/fs/cgroup", "memory.max", "memory.current", []string{"inactive_file", "active_file"}
		switch {
		case part[0] == "0" && part[1] == "":
		case strings.Contains(","+part[1]+",", ",memory,"):
			root, maxName, useName = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
			fileKeys = []string{"total_inactive_file", "total_active_file"}
		default:
			continue
		}
		// A limit of any group above counts too. Inside a container the path is
		// that of the host and leads nowhere; the root then has the limit.
		for dir := path.Clean("/" + part[2]); ; dir = path.Dir(dir) {
			if n, ok := groupRoom(read, root+dir, maxName, useName, fileKeys); ok {
				note(n, "memory limit of control group "+dir)
			}
			if dir == "/" {
				break
			}
		}
	}
	return best, limit
}

// groupRoom returns the limit of a group less what it cannot give back.
func groupRoom(read func(string) ([]byte, error), dir, maxName, useName string, fileKeys []string) (int, bool) {
	limit, ok := number(read, path.Join(dir, maxName))
	if !ok || limit >= 1<<60 { // version 1 writes no limit as a huge number
		return 0, false
	}
	use, _ := number(read, path.Join(dir, useName))
	if b, err := read(path.Join(dir, "memory.stat")); err == nil {
		for _, k := range fileKeys {
			n, _ := field(b, k)
			use -= n
		}
	}
	return limit - max(use, 0), true
}

// number reads a file that holds one number; "max" is none.
func number(read func(string) ([]byte, error), name string) (int, bool) {
	b, err := read(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err == nil
}

// field returns the number after a word at the start of a line.
func field(b []byte, word string) (int, bool) {
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == word {
			n, err := strconv.Atoi(f[1])
			return n, err == nil
		}
	}
	return 0, false
}
