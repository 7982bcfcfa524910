//go:build !linux

package kern

import "time"

var cpuStart = time.Now()

func cpuTime() time.Duration { return time.Since(cpuStart) }
