package ui

import "net/http"

// addManagement adds the pages by which an app is managed. app is the path of an app.
func (p *Page) addManagement(mux *http.ServeMux, app string) {
	mux.Handle("GET "+Prefix+"/operations", p.page(showOperations))
	mux.Handle("GET "+Prefix+"/operations/audit", p.page(listAudit))
	mux.Handle("GET "+app+"/audit", p.page(listAudit))
	mux.Handle("POST "+Prefix+"/operations/keys", p.page(createKey))
	mux.Handle("POST "+Prefix+"/operations/keys/{id}/revoke", p.page(revokeKey))
	mux.Handle("POST "+Prefix+"/operations/people/end-sessions", p.page(endSessions))
	mux.Handle("GET "+app+"/dead-letters", p.page(listDeadLetters))
	mux.Handle("POST "+app+"/dead-letters/redrive", p.page(redriveDeadLetters))
	mux.Handle("GET "+app+"/jobs", p.page(listJobs))
	mux.Handle("GET "+app+"/dead-letters/redrive", p.page(redriveDeadLetters))
	mux.Handle("GET "+app+"/app", p.page(showApp))
	mux.Handle("GET "+app+"/app/made-key", p.page(showMadeKey))
	mux.Handle("GET "+Prefix+"/operations/made-key", p.page(showMadeKey))
	mux.Handle("POST "+app+"/app/{action}", p.page(freezeApp))
	mux.Handle("POST "+app+"/app/delete", p.page(deleteApp))
	mux.Handle("POST "+app+"/app/settings", p.page(putAppSettings))
	mux.Handle("POST "+app+"/app/keys", p.page(createKey))
	mux.Handle("POST "+app+"/app/keys/{id}/revoke", p.page(revokeKey))
	mux.Handle("POST "+app+"/app/signing-keys", p.page(createSigningKey))
	mux.Handle("POST "+app+"/app/signing-keys/{id}/retire", p.page(retireSigningKey))
	mux.Handle("GET "+app+"/calendar", p.page(openCalendar))
	mux.Handle("GET "+app+"/calendars", p.page(listCalendars))
	mux.Handle("GET "+app+"/calendars/{name}", p.page(showCalendar))
	mux.Handle("POST "+app+"/calendars/{name}", p.page(putCalendar))
	mux.Handle("POST "+app+"/calendars/{name}/import", p.page(importCalendar))
	mux.Handle("POST "+app+"/calendars/{name}/delete", p.page(deleteCalendar))
}
