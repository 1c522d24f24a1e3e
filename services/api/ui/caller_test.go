package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/ui"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestOnlyEditorsHaveYAMLRead checks that the YAML of a viewer who may not write is not read: it could
// take long. Here it cannot be read, so the answer would say so.
func TestOnlyEditorsHaveYAMLRead(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t, func(o *api.Options) { o.Auth.TrustHeader = "X-Carillon-App" })
	p := open(t, f, false)
	var err error
	p.page, err = ui.New(
		ui.Options{API: f.Api.Handler(), TrustHeader: "X-Carillon-App", Now: time.Now})
	require.NoError(t, err)
	const path = "/ui/apps/shop/timers/new"
	form := url.Values{"yaml": {"name: [typed"}, "do": {"preview"}, "body": {"what was typed"}}
	for _, scope := range []string{"write", "read"} {
		key := f.MakeKey(t, admin, "shop", scope).Key
		p.cookies = nil
		p.cookies = p.post("/ui/sign-in", own, url.Values{"key": {key}}).Result().Cookies()
		for _, part := range []string{"", "/sync", "/test"} {
			w := p.post(path+part, own, form)
			if scope == "write" {
				require.Contains(t, w.Body.String(), "did not find expected", part)
				continue
			}
			require.NotContains(t, w.Body.String(), "did not find expected", part)
			require.Contains(t, w.Body.String(), "scope write", part)
			if part != "/test" {
				require.Contains(t, w.Body.String(), "name: [typed", part)
			}
		}
		if scope == "read" {
			require.Equal(t, http.StatusForbidden, p.post(path, own, form).Code)
		}
	}
	p.cookies = nil // a header that the API does not trust is no credential
	for part, target := range map[string]string{
		"": "#signed-out", "/sync": "#signed-out", "/test": "#test-call",
	} {
		w := p.from(own+path, path+part, form, "X-Carillon-App", "shop", "Hx-Request", "true")
		require.Equal(t, target, w.Header().Get("Hx-Retarget"), part)
		require.NotContains(t, w.Body.String(), "did not find expected", part)
	}
}

// TestAliasesInTheEditor checks that short YAML whose aliases stand for 100 MB is refused, also where
// the form would write them out.
func TestAliasesInTheEditor(t *testing.T) {
	t.Parallel()
	p := open(t, apitest.Setup(t), true)
	long := "a: &a " + strings.Repeat("b", 20_000) + "\n"
	aliases := "[" + strings.Repeat("*a,", 5000) + "]"
	for _, text := range []string{
		long + "c: " + aliases, long + "schedule: {kind: cron, specs: " + aliases + "}",
	} {
		for _, part := range []string{"", "/sync", "/test"} {
			w := p.post("/ui/apps/shop/timers/new"+part, own,
				url.Values{"yaml": {text}, "base": {text}})
			require.Contains(t, w.Body.String(), "fewer aliases", part)
			require.Less(t, w.Body.Len(), 200_000, part)
		}
	}
}

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
