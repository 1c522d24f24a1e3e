package ui_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api/ui"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// answers is an API that gives a fixed answer to some requests for lists, by their path.
type answers struct {
	http.Handler

	of map[string]string
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, fixed := a.of[strings.TrimPrefix(r.URL.Path, "/api/v2")]
	if !fixed || r.Method != http.MethodGet {
		a.Handler.ServeHTTP(w, r)
		return
	}
	if r.URL.Query().Get("cursor") == "last" {
		body = `{"items":[],"total":100}`
	}
	_, _ = io.WriteString(w, body)
}

// openOver is open for an API that gives fixed answers.
func openOver(t *testing.T, f *apitest.Fixture, of map[string]string) *pages {
	t.Helper()
	api := &answers{Handler: f.Api.Handler(), of: of}
	p, err := ui.New(ui.Options{API: api, Keyless: true, Now: time.Now})
	require.NoError(t, err)
	return &pages{t: t, page: p}
}

// goingOn finds the address of the next page.
var goingOn = regexp.MustCompile(`<a rel="next" href="([^"]*cursor=last[^"]*)"`)

// TestEmptyPagesOfALongSearch checks lists whose page has no items although the search goes on.
func TestEmptyPagesOfALongSearch(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	made, _ := f.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	f.Calendar(t, http.StatusOK, http.MethodPut, "days?app=shop", `{}`)
	const empty = `{"items":[],"next_cursor":"last","total":100}`
	of := make(map[string]string)
	for _, path := range []string{
		"/timers", "/apps/shop/fires", "/apps/shop/dead-letters", "/apps/shop/audit",
		"/apps/shop/jobs", "/calendars", "/calendars/days/timers", "/timers/" + made.ID + "/fires",
	} {
		of[path] = empty
	}
	p := openOver(t, f, of)
	for path, none := range map[string]string{
		"timers?name_contains=t19": "No timers match.",
		"fires?reason=paused":      "No fires match.",
		"dead-letters?failure=dns": "No failed fires match.",
		"audit?actor=nobody":       "No changes match.",
		"jobs":                     "The app has no jobs.",
		"calendars":                "The app has no calendars yet.",
		"calendars/days":           "No timer uses it.",
		"timers/" + made.ID:        "No fires are kept.",
		"overview":                 "No timers match.",
	} {
		body := p.shown("/ui/apps/shop/" + path)
		require.Contains(t, body, "not everything has been searched yet", path)
		require.NotContains(t, body, none, path)
		require.NotContains(t, body, "Change all that match", path)
		found := goingOn.FindStringSubmatch(body)
		require.NotNil(t, found, path)
		next := html.UnescapeString(found[1])
		at, query, _ := strings.Cut(path, "?")
		if query == "" {
			continue
		}
		require.Contains(t, next, at+"?")
		require.Contains(t, next, query)
		body = p.shown(next)
		require.Contains(t, body, "There are no more.")
		require.NotContains(t, body, none)
		require.NotContains(t, body, `rel="next"`)
	}
	p.cookies = []*http.Cookie{{Name: "carillon_language", Value: "zh"}}
	require.Contains(t, p.shown("/ui/apps/shop/timers?"+url.Values{"labels": {"a"}}.Encode()),
		"尚未搜索全部内容")
}
