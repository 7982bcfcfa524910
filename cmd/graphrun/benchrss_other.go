//go:build !linux

package main

// rssNow knows only the peak of the process.
func rssNow() (now, peak float64) {
	peak = peakRSS()
	return peak, peak
}

// resetPeak cannot begin anew here.
func resetPeak() {}

// filesInLargePages is not known here.
func filesInLargePages() float64 { return 0 }
