package cpu

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// DefaultThreads returns the number of workers when none is asked for: the
// processors this process may run on, less than the cgroup's quota allows
// (rounded down, at least 1), one per physical core.
func DefaultThreads() int {
	n := min(runtime.NumCPU(), physicalCores("/sys/devices/system/cpu", runtime.NumCPU()))
	if quota, ok := cgroupQuota("/sys/fs/cgroup"); ok {
		n = min(n, int(quota))
	}
	return max(1, n)
}

// physicalCores counts distinct cores under root, the cpu folder of sysfs. It
// returns fallback when the folder does not tell.
func physicalCores(root string, fallback int) int {
	entries, err := os.ReadDir(root)
	if err != nil {
		return fallback
	}
	cores := map[string]bool{}
	for _, e := range entries {
		if _, err := strconv.Atoi(strings.TrimPrefix(e.Name(), "cpu")); err != nil {
			continue
		}
		siblings, err := os.ReadFile(root + "/" + e.Name() + "/topology/thread_siblings_list")
		if err != nil {
			return fallback
		}
		cores[string(siblings)] = true
	}
	if len(cores) == 0 {
		return fallback
	}
	return len(cores)
}

// cgroupQuota returns the processors the control group under root grants, as a
// fraction, from version 2 or 1 files.
func cgroupQuota(root string) (float64, bool) {
	if b, err := os.ReadFile(root + "/cpu.max"); err == nil {
		f := strings.Fields(string(b))
		if len(f) == 2 && f[0] != "max" {
			return ratio(f[0], f[1])
		}
		return 0, false
	}
	quota, err := os.ReadFile(root + "/cpu/cpu.cfs_quota_us")
	if err != nil {
		return 0, false
	}
	period, err := os.ReadFile(root + "/cpu/cpu.cfs_period_us")
	if err != nil {
		return 0, false
	}
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

func ratio(a, b string) (float64, bool) {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return x / y, err1 == nil && err2 == nil && x > 0 && y > 0
}
