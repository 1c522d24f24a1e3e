package auth

import (
	"net/http"

	"github.com/carillon-timer/carillon/libs/apikey"
)

// ScopeOf returns the scope that a method needs by default: read for GET and HEAD, write for
// others.
func ScopeOf(method string) apikey.Scope {
	if method == http.MethodGet || method == http.MethodHead {
		return apikey.Read
	}
	return apikey.Write
}
