package client_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// TestNotFoundIsOfTheAPI checks that a gateway without an API behind it does not make what is deleted
// look gone.
func TestNotFoundIsOfTheAPI(t *testing.T) {
	t.Parallel()
	found := func(body string) bool {
		resp := &http.Response{Status: "404 Not Found", StatusCode: http.StatusNotFound}
		return client.NotFound(client.NewError(resp, []byte(body)))
	}
	require.True(t, found(`{"title":"Not Found","status":404,"detail":"no timer 7 in this app"}`))
	require.False(t, found("default backend - 404"))
	require.False(t, found(`{"title":"Not Found","status":404,"detail":"no such path: /x"}`))
}

// TestGoneIsOfTheResource checks that an unknown app, or a key of another one, does not make what is
// deleted look gone.
func TestGoneIsOfTheResource(t *testing.T) {
	t.Parallel()
	gone := func(body string) bool {
		resp := &http.Response{Status: "404 Not Found", StatusCode: http.StatusNotFound}
		return client.Gone(client.NewError(resp, []byte(body)))
	}
	require.True(t, gone(`{"status":404,"detail":"no timer 7 in this app"}`))
	require.False(t, gone(`{"status":404,"detail":"there is no app \"shop\"",`+
		`"errors":[{"location":"query.app","message":"there is no app \"shop\""}]}`))
	require.False(t, gone("default backend - 404"))
}
