// Package browsertest talks to a running server through its page in Chromium. It
// is a module of its own, so that nobody who uses graphrun downloads chromedp.
//
//	go test -artifacts -outputdir DIR .    keeps the screenshots
package browsertest
