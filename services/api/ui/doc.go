// Package ui serves the page in the browser: HTML that shows apps, timers and fires.
//
// It has no access to the store. Every value comes from the API of version 2, called in this
// process with the viewer's credentials (client.go). A viewer signs in with an API key, which stays
// in a sealed cookie (session.go). Another way of signing in replaces Page.credentials only.
//
// Pages are templates, one set for each language (view.go, texts.go). They work without scripts;
// scripts add live parts, charts, the viewer's own time zone and keyboard shortcuts.
package ui
