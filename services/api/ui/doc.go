// Package ui serves the page in the browser: HTML that shows apps, timers and fires.
//
// It has no access to the store. Every value comes from the API of version 2, called in this
// process with the viewer's credentials (client.go). A viewer signs in with an API key or at an
// identity provider (oidc.go). Either is kept in a sealed cookie (session.go).
//
// Pages are templates, one set for each language (view.go, texts.go). They work without scripts;
// scripts add live parts, charts, the viewer's own time zone and keyboard shortcuts.
//
// Pages:
//
//	overview.go        the overview of an app
//	timers.go          timers of an app
//	timer.go           a timer with its next and past fires
//	heatmap.go         when a timer fires in a week
//	fire.go            a fire with its explanation
//	firelist.go        fires of an app
//	deadletters.go     failed fires, and their redrive
//	editor.go          the editor of a timer, with preview and test call
//	form.go            its form
//	document.go        its text, as YAML
//	merge.go           what was changed in either
//	calendars.go       calendars
//	calendaryear.go    a calendar as a year
//	calendarimport.go  import of an iCalendar file
//	jobs.go            changes of many timers
//	joblist.go         the list of those
//	app.go             an app and its limits
//	appkeys.go         keys of an app
//	appsettings.go     the form of its settings
//	audit.go           the audit trail
//	operations.go      the deployment
//	entry.go           choice of an app, and sign-in with a key
//	oidc.go            sign-in with a provider
//
// What they share:
//
//	ui.go            requests, their paths and their headers
//	manage.go        paths of an app
//	client.go        calls of the API
//	types.go         bodies of the API
//	postedform.go    the forms that viewers send, and their limits
//	caller.go        what the viewer may do
//	session.go       sessions in cookies
//	listing.go       pages of a list
//	scheduletext.go  a schedule in words
//	texts.go         texts by language
//	view.go          templates
package ui
