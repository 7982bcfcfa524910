//go:build !unix

package sched

import "time"

func processorTime() time.Duration { return 0 }
