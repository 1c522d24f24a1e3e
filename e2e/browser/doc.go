// Package browser opens pages in a real Chromium, for tests.
//
// A Tab collects what a person with the developer tools open would see go wrong: errors and
// warnings of the console, exceptions, violations of the content policy, and requests without an
// answer. axe-core checks pages for what assistive technology needs.
//
// Tests only: testdata/axe.min.js is axe-core 4.14.1 from npm, unchanged (MPL 2.0).
// TestAxeIsUnchanged has its hash.
//
//	browser.go     starts Chromium
//	tab.go         a tab: opens pages, clicks and types, and collects what goes wrong
//	axe.go         checks a page by axe-core
//	screenshot.go  takes a screenshot
package browser
