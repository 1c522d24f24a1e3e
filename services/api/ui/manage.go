package ui

import "net/http"

// addManagement adds the pages by which an app is managed. app is the path of an app.
func (p *Page) addManagement(mux *http.ServeMux, app string) {
	mux.Handle("GET "+app+"/dead-letters", p.page(listDeadLetters))
	mux.Handle("POST "+app+"/dead-letters/redrive", p.page(redriveDeadLetters))
}
