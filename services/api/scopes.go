package api

import (
	"net/http"

	"github.com/carillon-timer/carillon/libs/apikey"
)

// scopes are those of operations that need another than their method says.
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
	completeFireOperation: "", // its token is its key
}

// scopeOf returns the scope that an operation needs: what shows is read, what changes is write.
func scopeOf(operation, method string) apikey.Scope {
	if s, ok := scopes[operation]; ok {
		return s
	}
	if method == http.MethodGet || method == http.MethodHead {
		return apikey.Read
	}
	return apikey.Write
}
