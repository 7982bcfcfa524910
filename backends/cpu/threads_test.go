package cpu

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPhysicalCores(t *testing.T) {
	for _, c := range []struct {
		name string
		cpus []string // siblings list of each processor
		want int
	}{
		{"no hyperthreads", []string{"0", "1", "2", "3"}, 4},
		{"two per core", []string{"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"}, 4},
		{"eight per core", []string{"0-7", "0-7", "0-7", "0-7", "0-7", "0-7", "0-7", "0-7"}, 1},
		{"big with threads and small without", []string{"0-1", "0-1", "2-3", "2-3", "4", "5"}, 4},
	} {
		root := t.TempDir()
		writeFile(t, root+"/cpufreq/x", "")
		for i, s := range c.cpus {
			writeFile(t, fmt.Sprintf("%s/cpu%d/topology/thread_siblings_list", root, i), s+"\n")
		}
		if got := physicalCores(root, 99); got != c.want {
			t.Errorf("%s: got %d cores, want %d", c.name, got, c.want)
		}
	}
	if got := physicalCores(t.TempDir()+"/none", 7); got != 7 {
		t.Errorf("without sysfs: got %d, want the fallback 7", got)
	}
}

func TestCgroupQuota(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  float64
		ok    bool
	}{
		{"v2 with quota", map[string]string{"cpu.max": "250000 100000\n"}, 2.5, true},
		{"v2 without", map[string]string{"cpu.max": "max 100000\n"}, 0, false},
		{"v1 with quota", map[string]string{"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.5, true},
		{"v1 without", map[string]string{"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, -1e-5, false},
		{"none", nil, 0, false},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			writeFile(t, root+"/"+name, text)
		}
		got, ok := cgroupQuota(root)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: got %v, %v, want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
	if n := DefaultThreads(); n < 1 {
		t.Errorf("DefaultThreads() = %d, want at least 1", n)
	}
}
