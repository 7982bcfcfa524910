// Package browsertest opens the pages of graphrun in Chromium: that of --dump=html
// and that of a server. It is a module of its own, so that nobody who uses graphrun
// downloads chromedp.
//
//	go test -artifacts -outputdir DIR .    keeps the screenshots
package browsertest
