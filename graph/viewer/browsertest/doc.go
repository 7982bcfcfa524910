// Package browsertest opens the page of graphrun --dump=html in Chromium. It is
// a module of its own, so that nobody who uses graphrun downloads chromedp.
//
//	go test -artifacts -outputdir DIR .    keeps the screenshots
package browsertest
