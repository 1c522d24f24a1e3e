package api

import (
	"net/http"

	"github.com/carillon-timer/carillon/libs/apikey"
)

// scopes are the scopes of operations that differ from the default of their method.
var scopes = map[string]apikey.Scope{
	"preview-schedule":    apikey.Read, // a POST that writes nothing
	"put-app-settings":    apikey.Admin,
	"list-signing-keys":   apikey.Admin,
	"create-signing-key":  apikey.Admin,
	"retire-signing-key":  apikey.Admin,
	"list-api-keys":       apikey.Admin,
	"create-api-key":      apikey.Admin,
	"revoke-api-key":      apikey.Admin,
	"list-admin-keys":     apikey.Admin,
	"create-admin-key":    apikey.Admin,
	"revoke-admin-key":    apikey.Admin,
	completeFireOperation: "", // authenticated by its token
}

// scopeOf returns the scope that an operation needs: by default read for GET and HEAD, write for
// other methods.
func scopeOf(operation, method string) apikey.Scope {
	if s, ok := scopes[operation]; ok {
		return s
	}
	if method == http.MethodGet || method == http.MethodHead {
		return apikey.Read
	}
	return apikey.Write
}
