package main

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// rssNow returns the memory that is resident, and the most that was since
// resetPeak, in MB.
func rssNow() (now, peak float64) {
	sizes := procSizes("/proc/self/status")
	return sizes["VmRSS:"] / 1e6, max(sizes["VmRSS:"], sizes["VmHWM:"]) / 1e6
}

// filesInLargePages returns the bytes of mapped files that are in large pages.
func filesInLargePages() float64 { return procSizes("/proc/self/smaps_rollup")["FilePmdMapped:"] }

// procSizes returns the sizes in a file of /proc, in bytes, by name; none if
// there is no such file.
func procSizes(path string) map[string]float64 {
	sizes := map[string]float64{}
	b, _ := os.ReadFile(path) //nolint:errcheck // a kernel may leave it out
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) == 3 && f[2] == "kB" {
			kib, _ := strconv.ParseFloat(f[1], 64)
			sizes[f[0]] = kib * 1024
		}
	}
	return sizes
}

// resetPeak begins a new measurement of the most resident memory.
func resetPeak() {
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) //nolint:errcheck // the peak is then that of the process
}
