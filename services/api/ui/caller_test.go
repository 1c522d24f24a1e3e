package ui_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestOnlyWhatTheViewerMayDo checks that nobody gets a form that the API would refuse.
func TestOnlyWhatTheViewerMayDo(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	p := open(t, f, false)
	for scope, status := range map[string]int{
		"read": http.StatusForbidden, "operate": http.StatusForbidden, "write": http.StatusOK,
	} {
		key := f.MakeKey(t, admin, "shop", scope).Key
		p.cookies = nil
		p.cookies = p.post("/ui/sign-in", own, url.Values{"key": {key}}).Result().Cookies()
		require.Equal(t, status, p.get("/ui/apps/shop/timers/new").Code, scope)
		list := p.shown("/ui/apps/shop/calendars")
		unknown := p.get("/ui/apps/shop/calendars/holidays?new=yes").Code
		if status == http.StatusOK {
			require.Contains(t, list, "present or new")
			require.Equal(t, http.StatusOK, unknown)
		} else {
			require.NotContains(t, list, "present or new")
			require.Equal(t, http.StatusNotFound, unknown)
		}
	}
}
