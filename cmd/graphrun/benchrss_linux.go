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
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "VmRSS:":
			now = kib * 1024 / 1e6
		case "VmHWM:":
			peak = kib * 1024 / 1e6
		}
	}
	return now, max(now, peak)
}

// resetPeak begins a new measurement of the most resident memory.
func resetPeak() {
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) //nolint:errcheck // the peak is then that of the process
}
