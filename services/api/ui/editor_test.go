package ui_test

import (
	"context"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/yamltext/yamltexttest"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

var (
	fieldValue = regexp.MustCompile(`<input [^>]*name="([a-z_]+)" value="([^"]*)"`)
	textArea   = regexp.MustCompile(`(?s)<textarea name="([a-z_]+)"[^>]*>(.*?)</textarea>`)
	chosen     = regexp.MustCompile(`(?s)<select name="([a-z_]+)"[^>]*>(.*?)</select>`)
	option     = regexp.MustCompile(`<option value="([^"]*)" selected>`)
)

// crlf returns a text with the ends of lines that browsers send.
func crlf(text string) string {
	return strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n").Replace(text)
}

// editor returns the fields of the editor on a page, as a browser would send them. Browsers leave
// out the first end of a line in a text area.
func editor(body string) url.Values {
	form := make(url.Values)
	for _, m := range fieldValue.FindAllStringSubmatch(body, -1) {
		form.Set(m[1], crlf(html.UnescapeString(m[2])))
	}
	for _, m := range textArea.FindAllStringSubmatch(body, -1) {
		form.Set(m[1], crlf(html.UnescapeString(strings.TrimPrefix(m[2], "\n"))))
	}
	for _, m := range chosen.FindAllStringSubmatch(body, -1) {
		form.Set(m[1], "")
		if o := option.FindStringSubmatch(m[2]); o != nil {
			form.Set(m[1], o[1])
		}
	}
	return form
}

func TestNewTimerByForm(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	const path = "/ui/apps/shop/timers/new"
	form := editor(p.shown(path))
	require.Equal(t, "cron", form.Get("kind"))
	form.Set("url", "nowhere")
	w := p.post(path, own, form)
	require.Equal(t, http.StatusUnprocessableEntity, w.Code, "%s", w.Body)
	require.Regexp(t, `<span id="error-name" class="field-error">[^<]*at least`, w.Body.String())
	form = editor(w.Body.String())
	require.Equal(t, "nowhere", form.Get("url"), "what the viewer entered stays")
	form.Set("name", "send invoices")
	w = p.post(path, own, form)
	require.Regexp(t, `<span id="error-url" class="field-error">[^<]*absolute`, w.Body.String())
	form.Set("url", "https://example.com/")
	form.Set("kind", "interval")
	form.Set("every", "90s")
	form.Set("labels", "team=pay\r\nnote=a=b: c")
	form.Set("attempts", "7")
	form.Set("do", "preview")
	body := p.posted(path, form)
	require.Equal(t, 10, strings.Count(body, "<li><time"), "the next instants")
	require.NotContains(t, editor(body).Get("yaml"), "specs", "what an interval does not have")
	form = editor(body)
	w = p.post(path, own, form)
	require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
	body = p.shown(w.Header().Get("Location"))
	for _, want := range []string{"send invoices", "every 1m30s", "team=pay", "note=a=b: c"} {
		require.Contains(t, body, want)
	}
	again := p.followed(p.post(path, own, form))
	require.Contains(t, again.Body.String(), "so nothing was changed", "the same timer")
	require.Contains(t, p.get(strings.TrimSuffix(w.Header().Get("Location"), "?did=save")+"/edit").
		Body.String(), `name="attempts" value="7"`)
}

// TestAnotherKindIsChosen changes the kind of a schedule in the form, by a browser that sends the
// hidden fields of the kind before, too: at once, and after the YAML has followed.
func TestAnotherKindIsChosen(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	for i, followed := range []bool{false, true} {
		made := f.Create(t, http.StatusCreated, strings.Replace(apitest.TimerWith(
			`{"kind":"cron","specs":["30 2 * * *"],"time_zone":"Europe/Berlin","gap":"skip",`+
				`"overlap":"second","max_fires":7}`, target, ""), `"bill"`, fmt.Sprintf(`"b%d"`, i), 1))
		path := "/ui/apps/shop/timers/" + made.ID + "/edit"
		form := editor(p.shown(path))
		change := func(values map[string]string) {
			for name, value := range values {
				form.Set(name, value)
			}
			if followed {
				synced := editor(p.posted(path+"/sync", form))
				form.Set("base", synced.Get("base"))
				form.Set("yaml", synced.Get("yaml"))
			}
		}
		change(map[string]string{"kind": "interval", "every": "1h"})
		change(map[string]string{"body": "typed after the kind"})
		w := p.post(path, own, form)
		require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
		now, err := f.Store.TimerByName(t.Context(), "shop", made.Name)
		require.NoError(t, err)
		s := now.Definition.Schedule
		require.Equal(t, timer.KindInterval, s.Kind)
		require.Empty(t, s.Specs)
		require.EqualValues(t, 7, s.MaxFires, "an interval has it, too")

		form = editor(p.shown(path))
		change(map[string]string{"kind": "cron", "specs": "0 9 * * MON", "time_zone": "UTC"})
		change(map[string]string{"body": "and again"})
		w = p.post(path, own, form)
		require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
		now, err = f.Store.TimerByName(t.Context(), "shop", made.Name)
		require.NoError(t, err)
		require.Equal(t, []string{"0 9 * * MON"}, now.Definition.Schedule.Specs)
		require.Equal(t, "and again", now.Definition.Target.Body)
	}
}

// TestChoicesThatComeBack changes the kind of a schedule and its policies in the form, follows with
// the YAML, and chooses those of before again. Nothing of the definition is lost.
func TestChoicesThatComeBack(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	for _, c := range []struct {
		schedule string
		others   []string
	}{
		{
			`{"kind":"cron","specs":["30 2 * * *"],"time_zone":"Europe/Berlin","gap":"skip",` +
				`"overlap":"second","max_fires":7,"end_at":"2040-01-01T00:00:00Z"}`,
			[]string{"at", "interval", "fixed_delay"},
		},
		{
			`{"kind":"interval","every":"1h0m0s","anchor":"2030-01-01T00:00:00Z","phase":"5m0s"}`,
			[]string{"cron", "delay"},
		},
	} {
		made := f.Create(t, http.StatusCreated, apitest.TimerWith(c.schedule, target,
			`,"misfire":{"policy":"fire_all","max_fires":9},`+
				`"concurrency":{"policy":"queue_all","max_queue":3}`))
		path := "/ui/apps/shop/timers/" + made.ID
		opened := editor(p.shown(path + "/edit"))
		for _, other := range c.others {
			form := maps.Clone(opened)
			follow := func(values map[string]string) string {
				for name, value := range values {
					form.Set(name, value)
				}
				synced := editor(p.posted(path+"/edit/sync", form))
				form.Set("base", synced.Get("base"))
				form.Set("yaml", synced.Get("yaml"))
				return synced.Get("yaml")
			}
			away := follow(map[string]string{
				"kind": other, "misfire": "skip", "concurrency": "skip",
				"at": "2031-01-01T00:00:00Z", "delay": "5m", "every": "1h", "specs": "@daily",
			})
			require.NotContains(t, away, "max_queue")
			require.NotContains(t, away, "phase")
			follow(map[string]string{
				"kind": opened.Get("kind"), "misfire": "fire_all", "concurrency": "queue_all",
				"every": opened.Get("every"), "specs": opened.Get("specs"),
			})
			w := p.post(path+"/edit", own, form)
			require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
			now, err := f.Store.TimerByName(t.Context(), "shop", made.Name)
			require.NoError(t, err)
			require.EqualValues(t, 1, now.Version, "%s: it is the definition of before", other)
		}
		p.post(path+"/delete", own, url.Values{})
	}
}

// TestFieldsThatTheFormLacks changes a policy that has a field which the form does not have, and takes
// away the calendars.
func TestFieldsThatTheFormLacks(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	f.Call(t, http.MethodPut, "/api/v2/calendars/days?app=shop", `{}`, nil)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"at","at":"2040-01-01T00:00:00Z","calendars":["days"],"excluded":"next_allowed"}`,
		target, `,"concurrency":{"policy":"queue_all"}`))
	path := "/ui/apps/shop/timers/" + made.ID + "/edit"
	form := editor(p.shown(path))
	form.Set("misfire", "skip")
	form.Set("concurrency", "allow")
	form.Set("calendars", "")
	w := p.post(path, own, form)
	require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
}

// TestStatusOfPausedTimersInTheEditor checks that the form offers no status that a save does not give.
func TestStatusOfPausedTimersInTheEditor(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made, _ := f.Active(t, "hourly", `{"kind":"cron","specs":["@hourly"]}`)
	path := "/ui/apps/shop/timers/" + made.ID
	require.Contains(t, p.shown(path+"/edit"), `<option value="active"`)
	w := p.post(path+"/pause", own, url.Values{})
	require.Equal(t, http.StatusSeeOther, w.Code)
	paused := p.shown(path + "/edit")
	require.NotContains(t, paused, `<option value="active"`)
	require.Contains(t, paused, `<option value="inactive"`)
	copied := editor(p.shown("/ui/apps/shop/timers/new?from=" + made.ID))
	require.Equal(t, "inactive", copied.Get("status"))
}

// TestEditorKeepsBothSidesTheSame checks what the editor answers while a viewer types on one side.
func TestEditorKeepsBothSidesTheSame(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"cron","specs":["30 2 * * *"],"time_zone":"Europe/Berlin"}`, target,
		`,"status":"active","labels":{"team":"pay"},"retry":{"max_wait":"7m"}`))
	path := "/ui/apps/shop/timers/" + made.ID + "/edit"
	form := editor(p.shown(path))
	require.Equal(t, "30 2 * * *", form.Get("specs"))
	require.Contains(t, form.Get("yaml"), "max_wait: 7m0s")
	require.NotContains(t, form.Get("yaml"), "created_at")

	form.Set("specs", "0 9 * * MON\r\n0 10 * * TUE")
	body := p.posted(path+"/sync", form)
	require.Contains(t, body, `hx-swap-oob="outerHTML"`)
	require.Contains(t, body, "on Monday at 09:00; on Tuesday at 10:00")
	synced := editor(body)
	require.Contains(t, synced.Get("yaml"), "- 0 9 * * MON\r\n    - 0 10 * * TUE")
	require.Contains(t, synced.Get("yaml"), "max_wait: 7m0s", "what the form does not show")

	form.Set("base", synced.Get("base"))
	form.Set("yaml", "# why\r\n"+strings.Replace(synced.Get("yaml"), "team: pay", "team: ops", 1))
	body = p.posted(path+"/sync", form)
	require.Equal(t, "team=ops", editor(body).Get("labels"))
	require.Equal(t, "0 9 * * MON\r\n0 10 * * TUE", editor(body).Get("specs"))
	form.Set("labels", "team=ops")
	form.Set("base", editor(body).Get("base"))
	form.Set("timeout", "soon")
	body = p.posted(path+"/sync", form)
	require.Contains(t, editor(body).Get("yaml"), "# why")
	require.Regexp(
		t,
		`id="error-timeout" class="field-error">[^<]*soon`,
		body,
	)

	form.Set("base", editor(body).Get("base"))
	for _, broken := range []string{"name: [", "- 1", "", "name: a\nname: b", "&a [*a, *a]"} {
		form.Set("yaml", broken)
		body = p.posted(path+"/sync", form)
		require.Contains(t, body, `<p class="field-error">`, broken)
		require.Equal(t, http.StatusUnprocessableEntity, p.post(path, own, form).Code, broken)
	}
}

// TestSidesAreMerged changes both sides of the editor before either has followed the other.
func TestSidesAreMerged(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"cron","specs":["30 2 * * *"],"time_zone":"UTC"}`, target, ""))
	path := "/ui/apps/shop/timers/" + made.ID + "/edit"
	form := editor(p.shown(path))
	form.Set("body", "typed in the form")
	form.Set("labels", "team=pay\r\n")
	form.Set("yaml", strings.Replace(form.Get("yaml"), "priority: normal", "priority: high", 1))
	for range 2 { // and once more, when each has followed the other
		form = editor(p.posted(path+"/sync", form))
		require.Equal(t, "high", form.Get("priority"))
		require.Equal(t, "team=pay\r\n", form.Get("labels"), "as it was typed")
		require.Contains(t, form.Get("yaml"), "typed in the form")
		form.Set("stored_name", made.Name)
		form.Set("version", "1")
	}

	both := maps.Clone(form)
	refused := func(why string) {
		t.Helper()
		for _, body := range []string{
			p.posted(path+"/sync", both), p.posted(path+"/test", both), p.post(path, own, both).Body.String(),
		} {
			require.Contains(t, body, "cannot be joined")
			if !strings.Contains(body, `id="yaml-side"`) {
				continue // the answer of the test call
			}
			require.Contains(t, body, why)
			now := editor(body)
			for _, name := range []string{"base", "yaml", "specs", "kind", "labels", "priority"} {
				require.Equal(t, both.Get(name), now.Get(name), "%s stays", name)
			}
		}
		require.Equal(t, http.StatusUnprocessableEntity, p.post(path, own, both).Code)
	}
	both.Set("specs", "0 1 * * *")
	both.Set("yaml", strings.Replace(form.Get("yaml"), "30 2 * * *", "0 3 * * *", 1))
	refused("and differently")
	both.Set("specs", form.Get("specs"))
	both.Set("kind", "interval")
	refused("and differently") // the YAML has a new expression, and the form has another kind
	both.Set("kind", "cron")
	both.Set("labels", "a=b\r\na=c")
	refused("stands twice")
	both.Set("labels", form.Get("labels"))
	require.Equal(t, http.StatusSeeOther, p.post(path, own, both).Code)
	now, err := f.Store.TimerByName(t.Context(), "shop", made.Name)
	require.NoError(t, err)
	require.Equal(t, []string{"0 3 * * *"}, now.Definition.Schedule.Specs)
	require.Equal(t, "typed in the form", now.Definition.Target.Body)
	require.Equal(t, timer.PriorityHigh, now.Definition.Priority)
}

// TestListsShowEveryValue checks that a list of the form which does not have a value of the YAML does
// not replace it.
func TestListsShowEveryValue(t *testing.T) {
	t.Parallel()
	p := open(t, apitest.Setup(t), true)
	const path = "/ui/apps/shop/timers/new"
	form := editor(p.shown(path))
	form.Set("yaml", "schedule:\n  kind: weekly\npriority: urgent\ntarget:\n  method: TRACE\n")
	for range 2 {
		form = editor(p.posted(path+"/sync", form))
		for _, want := range []string{"kind: weekly", "priority: urgent", "method: TRACE"} {
			require.Contains(t, form.Get("yaml"), want)
		}
	}
}

// TestEditorKeepsTheMisfirePolicy checks that the form of a timer has its policy.
func TestEditorKeepsTheMisfirePolicy(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	for _, policy := range timer.MisfirePolicies() {
		name := string(policy.Policy)
		made := f.Create(t, http.StatusCreated, strings.Replace(apitest.TimerWith(
			`{"kind":"interval","every":"1h"}`, target, `,"misfire":{"policy":"`+name+`"}`,
		), `"bill"`, `"`+name+`"`, 1))
		require.Equal(
			t, name, editor(p.shown("/ui/apps/shop/timers/"+made.ID+"/edit")).Get("misfire"),
		)
	}
}

// TestEditorKeepsTexts saves texts that a reader of YAML can take for another value, refuses or
// changes: as they are, and with another field changed.
func TestEditorKeepsTexts(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	for i, text := range yamltexttest.Few() {
		name := fmt.Sprintf("t%03d", i)
		path := "/ui/apps/shop/timers/" + f.CreateWithText(t, name, text).ID + "/edit"
		was, err := f.Store.TimerByName(t.Context(), "shop", name)
		require.NoError(t, err)
		form := editor(p.shown(path))
		w := p.post(path, own, form)
		require.Equal(t, http.StatusSeeOther, w.Code, "%q %s", text, w.Body)
		now, err := f.Store.TimerByName(t.Context(), "shop", name)
		require.NoError(t, err)
		require.Equal(t, was.Definition, now.Definition, "%q", text)

		form = editor(p.shown(path))
		form.Set("every", "2h")
		require.Equal(t, http.StatusSeeOther, p.post(path, own, form).Code, "%q", text)
		now, err = f.Store.TimerByName(t.Context(), "shop", name)
		require.NoError(t, err)
		require.Equal(t, timer.Duration(2*time.Hour), now.Definition.Schedule.Every, "%q", text)
		require.Equal(t, was.Definition.Target, now.Definition.Target, "%q", text)
		require.Equal(t, was.Definition.Labels, now.Definition.Labels, "%q", text)
	}
}

// TestLabelsWithEqualsSigns changes one label in the form, beside others whose names have a "=".
func TestLabelsWithEqualsSigns(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"interval","every":"1h"}`, target,
		`,"labels":{"team":"pay","a":"b=1","a=b":"1","a=c":"2","=":"3","x":"","c=":"=d"}`))
	path := "/ui/apps/shop/timers/" + made.ID + "/edit"
	change := func(old, entered string) *httptest.ResponseRecorder {
		t.Helper()
		form := editor(p.shown(path))
		require.Contains(t, form.Get("labels"), old)
		form.Set("labels", strings.Replace(form.Get("labels"), old, entered, 1))
		return p.post(path, own, form)
	}
	want := map[string]string{
		"team": "ops", "a": "b=1", "a=b": "1", "a=c": "2", "=": "3", "x": "", "c=": "=d",
	}
	check := func(w *httptest.ResponseRecorder) {
		t.Helper()
		require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
		now, err := f.Store.TimerByName(t.Context(), "shop", made.Name)
		require.NoError(t, err)
		require.Equal(t, want, now.Definition.Labels)
	}
	check(change("team=pay", "team=ops"))
	want["a=c"] = "4"
	check(change("a=c=2", "a=c=4"))
	want["new"], want["c="] = "a=b", "=e"
	check(change("c===d", "new=a=b\r\nc===e"))
	delete(want, "team")
	check(change("team=ops", ""))
	w := change("a=c=4", "a=c=4\r\na=c=5")
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "stands twice")
}

// TestEditorKeepsEndsOfLines changes a body in the form. Browsers send every end of a line as CRLF.
func TestEditorKeepsEndsOfLines(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	for i, c := range []struct{ body, old, new, want string }{
		{"a\r\nb\r\n", "b", "c", "a\r\nc\r\n"},
		{"a\r\nb", "b", "c\r\nd", "a\r\nc\r\nd"},
		{"a\nb\n", "b", "c", "a\nc\n"},
		{"a", "a", "a\r\nb", "a\nb"},
		{"a\r\nb\n", "b", "c", "a\nc\n"},
	} {
		name := fmt.Sprintf("t%d", i)
		path := "/ui/apps/shop/timers/" + f.CreateWithText(t, name, c.body).ID + "/edit"
		form := editor(p.shown(path))
		form.Set("body", strings.Replace(form.Get("body"), c.old, c.new, 1))
		for range 2 { // and once more, when the YAML has followed
			now := editor(p.posted(path+"/sync", form))
			form.Set("base", now.Get("base"))
			form.Set("yaml", now.Get("yaml"))
		}
		require.Equal(t, http.StatusSeeOther, p.post(path, own, form).Code)
		now, err := f.Store.TimerByName(t.Context(), "shop", name)
		require.NoError(t, err)
		require.Equal(t, c.want, now.Definition.Target.Body, "%q", c.body)
	}
}

// TestWordsInTheForm enters words that YAML 1.1 takes for booleans and numbers, and keys without
// quotes in the YAML.
func TestWordsInTheForm(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"interval","every":"1h"}`, target, ""))
	path := "/ui/apps/shop/timers/" + made.ID + "/edit"
	form := editor(p.shown(path))
	form.Set("yaml", form.Get("yaml")+"labels:\r\n  y: x\r\n")
	form.Set("body", "no")
	form.Set("attempts", "012")
	require.Equal(t, http.StatusSeeOther, p.post(path, own, form).Code)
	form = editor(p.shown(path))
	require.Equal(t, "y=x", form.Get("labels"))
	require.Equal(t, "12", form.Get("attempts"))
	form.Set("labels", "country=NO\r\non=call\r\n012=1:30")
	require.Equal(t, http.StatusSeeOther, p.post(path, own, form).Code)
	now, err := f.Store.TimerByName(t.Context(), "shop", made.Name)
	require.NoError(t, err)
	want := map[string]string{"country": "NO", "on": "call", "012": "1:30"}
	require.Equal(t, want, now.Definition.Labels)
	require.Equal(t, "no", now.Definition.Target.Body)
}

// TestEditConflict checks that an edit never replaces a version that the viewer has not seen.
func TestEditConflict(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"interval","every":"1h"}`, target, ""))
	path := "/ui/apps/shop/timers/" + made.ID + "/edit"
	form := editor(p.shown(path))
	require.Equal(t, "1", form.Get("version"))
	f.Do(t, http.StatusOK, http.MethodPatch, apitest.TimerPath(made.ID, ""), `{"priority":"high"}`)
	form.Set("every", "2h")
	body := p.posted(path+"/sync", form)
	require.Contains(t, body, "it has version 2 now")
	require.NotContains(t, body, "If-Match")
	w := p.post(path, own, form)
	require.Equal(t, http.StatusPreconditionFailed, w.Code)
	body = w.Body.String()
	require.Contains(t, body, "Saving again replaces version 2.")
	require.NotContains(t, body, "it has version 2 now", "it is said once")
	require.NotContains(t, body, "If-Match")
	require.Contains(t, body, "priority: high", "their definition")
	form = editor(body)
	require.Equal(t, "2h", form.Get("every"))
	require.Equal(t, "2", form.Get("version"))
	require.Equal(t, http.StatusSeeOther, p.post(path, own, form).Code)
	now := f.Do(t, http.StatusOK, http.MethodGet, apitest.TimerPath(made.ID, ""), "")
	require.Equal(t, "2h0m0s", now.Schedule["every"])
}

// TestAnotherTimerTakesTheName deletes a timer and creates another one of its name while an editor is
// open: saving does not replace that one.
func TestAnotherTimerTakesTheName(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"interval","every":"1h"}`, target, ""))
	path := "/ui/apps/shop/timers/" + made.ID + "/edit"
	form := editor(p.shown(path))
	form.Set("every", "2h")
	f.Call(t, http.MethodDelete, apitest.TimerPath(made.ID, ""), "", nil)
	other := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"interval","every":"3h"}`, target, ""))
	w := p.post(path, own, form)
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "somebody has deleted it")
	form = editor(w.Body.String())
	require.Equal(t, "2h", form.Get("every"))
	w = p.post("/ui/apps/shop/timers/new", own, form)
	require.Equal(t, http.StatusConflict, w.Code, "the name is taken")
	require.Contains(t, w.Body.String(), `role="alert"`)
	require.Equal(t, "2h", editor(w.Body.String()).Get("every"))
	now := f.Do(t, http.StatusOK, http.MethodGet, apitest.TimerPath(other.ID, ""), "")
	require.Equal(t, "3h0m0s", now.Schedule["every"])
	require.Equal(t, 1, now.Version)
}

// TestEditorKeepsAStatusOfOthers sets the status of a timer while an editor is open: saving keeps it,
// unless the viewer has chosen one.
func TestEditorKeepsAStatusOfOthers(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	for opened, set := range map[string]string{"active": "inactive", "inactive": "active"} {
		made := f.Create(t, http.StatusCreated, strings.Replace(apitest.TimerWith(
			`{"kind":"interval","every":"1h"}`, target, `,"status":"`+opened+`"`,
		), `"bill"`, `"`+opened+`"`, 1))
		path := "/ui/apps/shop/timers/" + made.ID + "/edit"
		status := func(want string) {
			t.Helper()
			now, err := f.Store.TimerByName(t.Context(), "shop", made.Name)
			require.NoError(t, err)
			require.EqualValues(t, want, now.Status, "opened %s", opened)
		}
		change := func(body string) {
			t.Helper()
			f.Do(t, http.StatusOK, http.MethodPatch, apitest.TimerPath(made.ID, ""), body)
		}
		form := editor(p.shown(path))
		require.Equal(t, opened, form.Get("status"))
		change(`{"status":"` + set + `"}`)
		form.Set("labels", "team=pay")
		require.NotContains(t, p.posted(path+"/sync", form), `name="stored_status"`, "it stays")
		require.Equal(t, http.StatusSeeOther, p.post(path, own, form).Code)
		status(set)

		form.Set("version", "2") // as is, and with a definition of others
		form.Set("labels", "team=ops")
		change(`{"priority":"high"}`)
		w := p.post(path, own, form)
		require.Equal(t, http.StatusPreconditionFailed, w.Code)
		form = editor(w.Body.String())
		require.Equal(t, set, form.Get("status"), "the editor shows what saving leaves")
		require.Contains(t, form.Get("yaml"), "status: "+set)
		require.Contains(t, form.Get("base"), "status: "+set)
		require.Equal(t, "team=ops", form.Get("labels"))
		require.Equal(t, http.StatusSeeOther, p.post(path, own, form).Code)
		status(set)

		form = editor(p.shown(path))
		form.Set("status", opened)
		change(`{"priority":"low"}`)
		w = p.post(path, own, form)
		require.Equal(t, http.StatusPreconditionFailed, w.Code)
		form = editor(w.Body.String())
		require.Equal(t, opened, form.Get("status"), "what the viewer chose")
		require.Equal(t, http.StatusSeeOther, p.post(path, own, form).Code)
		status(opened)

		form = editor(p.shown(path))
		f.Call(t, http.MethodDelete, apitest.TimerPath(made.ID, ""), "", nil)
		w = p.post(path, own, form)
		require.Equal(t, http.StatusNotFound, w.Code)
		form = editor(w.Body.String())
		require.Equal(t, http.StatusSeeOther, p.post("/ui/apps/shop/timers/new", own, form).Code)
		status(opened) // of a new timer it is sent
	}
}

// TestTestCallInTheEditor calls the target of what the editor shows, and shows markup in its answer
// as text.
func TestTestCallInTheEditor(t *testing.T) {
	t.Parallel()
	answer := callback.Result{
		Class: callback.Retry, Failure: timer.FailureStatus, StatusCode: 503,
		Error: "answered 503", Excerpt: "<script>alert(1)</script>",
		Headers: map[string]string{"Server": "<b>x</b>"},
	}
	f := apitest.Setup(t, func(o *api.Options) {
		o.Caller = callback.Callers{timer.KindHTTP: answering(answer)}
	})
	p := open(t, f, true)
	const path = "/ui/apps/shop/timers/new"
	form := editor(p.shown(path))
	form.Set("url", "https://example.com/")
	body := p.posted(path+"/test", form)
	require.Regexp(t, `role="alert"><p>[^<]*name`, body, "it has no name yet")
	form.Set("name", "invoices")
	form.Set("do", "test")
	for _, body := range []string{p.posted(path+"/test", form), p.posted(path, form)} {
		require.Contains(t, body, "503")
		require.Contains(t, body, "&lt;script&gt;alert(1)")
		require.Contains(t, body, "&lt;b&gt;x")
		require.NotContains(t, body, "<script>alert")
	}
	require.Contains(t, p.posted(path, form), `value="invoices"`, "what was entered stays")
	require.NotContains(t, p.shown("/ui/apps/shop/timers"), "invoices")
}

// answering is a caller whose calls have one result.
type answering callback.Result

func (a answering) Call(context.Context, *callback.Request) callback.Result {
	return callback.Result(a)
}

// TestLabelsOfPolicies checks that the lists of the editor say what the policies do.
func TestLabelsOfPolicies(t *testing.T) {
	t.Parallel()
	p := open(t, apitest.Setup(t), true)
	for language, labels := range map[string][]string{
		"en": {
			`"allow">run beside it<`,
			`"queue_one">one waits, the oldest; while it waits, later ones are skipped<`,
			`"queue_all">all wait in order of due, up to max_queue<`,
			`"cancel_previous">run, and cancel the one before<`,
			`"fire_all">call all, at most the latest max_fires<`, `"fire_once">call one for all<`,
		},
		"zh": {`"queue_one">最早的一个等待；它等待期间，后来的跳过<`},
	} {
		p.cookies = []*http.Cookie{{Name: "carillon_language", Value: language}}
		body := p.shown("/ui/apps/shop/timers/new")
		for _, label := range labels {
			require.Contains(t, body, label)
		}
	}
}

// unreadable is a store that cannot read the first version of any definition.
type unreadable struct{ api.Store }

func (s unreadable) Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error) {
	t, err := s.Store.Timer(ctx, app, id)
	if t.Version == 1 {
		t.Definition = timer.Definition{Unreadable: "a newer release wrote it"}
	}
	return t, err
}

// TestEditorReplacesWhatCannotBeRead: the editor says why, and begins with a new definition.
func TestEditorReplacesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.Store = unreadable{o.Store} })
	p := open(t, f, true)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"interval","every":"1h"}`, target, `,"status":"inactive"`))
	path := "/ui/apps/shop/timers/" + made.ID + "/edit"
	body := p.shown(path)
	require.Contains(t, body, "a newer release wrote it")
	form := editor(body)
	require.Contains(t, form.Get("yaml"), "status: inactive")
	form.Set("url", "https://example.com/")
	w := p.post(path, own, form)
	require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
	now, err := f.Store.TimerByName(t.Context(), "shop", made.Name)
	require.NoError(t, err)
	require.EqualValues(t, 2, now.Version)
	require.Equal(t, timer.StatusInactive, now.Status)
}
