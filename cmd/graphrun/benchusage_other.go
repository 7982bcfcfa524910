//go:build !unix

package main

import "time"

// peakRSS is not known here.
func peakRSS() float64 { return 0 }

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
