package ui_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

const jobsPath = "/ui/apps/shop/jobs"

// TestConfirmationOfAJob checks that a viewer sees what they confirm.
func TestConfirmationOfAJob(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	f.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	body := p.posted(jobsPath, url.Values{
		"action": {"pause"}, "until": {"2030-01-31T09:00"}, "reason": {"a <b>move"},
	})
	require.Contains(t, body, "<dt>Change</dt><dd>Pause</dd>")
	require.Contains(t, body, "a &lt;b&gt;move")
	require.Contains(t, body, `<dt>Until</dt><dd><time datetime="2030-01-31T09:00:00Z">`)
	body = p.posted(jobsPath, url.Values{"action": {"pause"}})
	require.Contains(t, body, "<dt>Until</dt><dd>it is resumed</dd>")
	body = p.posted(jobsPath, url.Values{
		"action": {"relabel"}, "set_labels": {"tier = a=b,zz="}, "remove_labels": {"team, old"},
	})
	require.Contains(t, body, "<code>tier=a=b</code> <code>zz=</code>")
	require.Contains(t, body, "<code>team</code> <code>old</code>")
}

// TestJobsShowWhatTheySelect checks that no job looks like one of another selection or change.
func TestJobsShowWhatTheySelect(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	f.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	for body, want := range map[string]string{
		`{"action":"delete","filter":{"name_prefix":"inv"}}`: "<code>name_prefix=inv</code>",
		`{"action":"run","all":true}`:                        "Every timer of the app.",
		`{"action":"relabel","all":true,"set_labels":{"a":"b"},"remove_labels":["c"]}`: "" +
			"<code>+a=b</code> <code>−c</code>",
		`{"action":"pause","all":true,"until":"2040-01-31T09:00:00Z"}`: "" +
			`Until <time datetime="2040-01-31T09:00:00`,
	} {
		var job struct{ ID string }
		f.Call(t, http.MethodPost, "/api/v2/apps/shop/jobs", body, nil).
			Into(t, http.StatusAccepted, &job)
		require.Contains(t, p.shown(jobsPath+"/"+job.ID), want)
		require.Contains(t, p.shown(jobsPath), want)
	}
}

// TestMalformedLabelsOfAJob checks that nothing that a viewer entered is left out.
func TestMalformedLabelsOfAJob(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	f.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	for _, c := range []struct{ set, remove, want string }{
		{"tier=a,bad", "", `(relabel): expected name=value, found &#34;bad&#34;`},
		{"=a", "", `found &#34;=a&#34;`},
		{"tier=a,tier=b", "", "A label stands twice."},
		{"", "team=pay", `expected a name without a value, found &#34;team=pay&#34;`},
	} {
		form := url.Values{
			"action": {"relabel"}, "set_labels": {c.set}, "remove_labels": {c.remove},
		}
		for _, confirmed := range []string{"", "yes"} {
			form.Set("confirmed", confirmed)
			body := p.posted(jobsPath, form)
			require.Contains(t, body, c.want)
			require.NotContains(t, body, `name="confirmed"`)
			fields := editor(body)
			require.Equal(t, c.set, fields.Get("set_labels"), "what was entered stays")
			require.Equal(t, c.remove, fields.Get("remove_labels"))
		}
	}
	require.Contains(t, p.shown(jobsPath), "The app has no jobs.")

	guarded, admin := apitest.Guarded(t)
	viewer := signedIn(t, guarded, guarded.MakeKey(t, admin, "shop", "operate").Key)
	w := viewer.post("/ui/apps/desk/jobs", own, url.Values{
		"action": {"relabel"}, "set_labels": {"bad"},
	})
	require.Equal(t, http.StatusNotFound, w.Code, "an app that the viewer may not see")
}
