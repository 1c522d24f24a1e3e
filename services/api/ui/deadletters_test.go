package ui_test

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// shown returns the body of a page that must have status 200 and no script in its markup.
func (p *pages) shown(path string) string {
	p.t.Helper()
	w := p.get(path)
	require.Equal(p.t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	require.NotContains(p.t, w.Body.String(), "<script>", path)
	return w.Body.String()
}

// followed returns the page to which an answer leads, as a browser shows it: with the cookies of the
// answer.
func (p *pages) followed(w *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	p.t.Helper()
	require.Equal(p.t, http.StatusSeeOther, w.Code, "%s", w.Body)
	r := httptest.NewRequestWithContext(
		p.t.Context(), http.MethodGet, w.Header().Get("Location"), http.NoBody)
	for _, c := range w.Result().Cookies() {
		r.AddCookie(c)
	}
	return p.send(r)
}

// posted returns the body of the page that answers a form.
func (p *pages) posted(path string, form url.Values) string {
	p.t.Helper()
	w := p.post(path, own, form)
	if w.Code == http.StatusSeeOther {
		w = p.followed(w)
	}
	require.Equal(p.t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	return w.Body.String()
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)

// confirmation returns the hidden fields of the form by which a viewer confirms something.
func (p *pages) confirmation(body string) url.Values {
	p.t.Helper()
	for _, f := range strings.Split(body, "<form")[1:] {
		form := make(url.Values)
		for _, m := range hidden.FindAllStringSubmatch(f, -1) {
			form.Add(m[1], html.UnescapeString(m[2]))
		}
		if form.Has("confirmed") {
			return form
		}
	}
	require.Fail(p.t, "no form to confirm", body)
	return nil
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	p := open(t, e.Fixture, true)
	const path = "/ui/apps/shop/dead-letters"
	require.Contains(t, p.shown(path), "No failed fires match.")
	bill, other := e.Held(t, "shop", "bill", 4), e.Held(t, "shop", "other", 3)
	e.Fail(t, bill[:3], timer.FailureTimeout)
	e.Fail(t, other, "<script>")

	body := p.shown(path)
	require.Equal(t, 6, strings.Count(body, `name="fires"`))
	require.Contains(t, body, "no answer: timeout")
	require.Contains(t, body, "no answer: &lt;script&gt;")
	require.Contains(t, body, ">other</a>", "the timer by its name")
	body = p.shown(path + "?failure=timeout&from=2020-01-01T00:00&timer=" + bill[0].Timer.String())
	require.Equal(t, 3, strings.Count(body, `name="fires"`))
	require.Equal(t, 3, strings.Count(p.shown(path+"?timer=other"), `name="fires"`))
	require.Contains(t, p.shown(path+"?timer=nobody"), "no timer of this name")
	require.Contains(t, p.shown(path+"?from=never"), "expected")
	require.Contains(t, p.shown(path+"?failure=bad"), `role="alert"`)

	// One fire that the viewer chose, then all others with its failure.
	body = p.posted(path+"/redrive", url.Values{
		"chosen": {"yes"}, "fires": {bill[1].FireID.String()}, "failure": {"timeout"},
	})
	require.Contains(t, body, "1 fire would be called again.")
	confirm := p.confirmation(body)
	require.Equal(t, bill[1].FireID.String(), confirm.Get("fires"))
	require.Contains(t, p.posted(path+"/redrive", confirm), "1 fire is called again.")
	require.Contains(t, p.posted(path+"/redrive", url.Values{"timer": {"bill"}}), "2 fires would")
	w := p.post(path+"/redrive", own, url.Values{"timer": {"nobody"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	body = p.posted(path+"/redrive", url.Values{"failure": {"timeout"}})
	require.Contains(t, body, "2 fires would be called again.")
	require.Contains(t, p.shown(path), bill[0].FireID.String(), "a dry run redrives nothing")
	confirm = p.confirmation(body)
	require.Contains(t, p.posted(path+"/redrive", confirm), "2 fires are called again.")
	again := p.shown(path + "?again=true")
	require.Contains(t, p.posted(path+"/redrive", confirm), "2 fires are called again.")
	require.Equal(t, again, p.shown(path+"?again=true"), "a repeated confirmation redrives nothing")
	body = p.shown(path)
	require.Equal(t, 3, strings.Count(body, `name="fires"`))
	require.Equal(t, 3, strings.Count(p.shown(path+"?again=true"), "redriven as"))

	w = p.get(path + "/redrive?chosen=yes&timer=other")
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "Nothing is chosen.")
	require.Equal(t, 3, strings.Count(w.Body.String(), `name="fires"`), "the list as it was")
	w = p.post(path+"/redrive", "http://evil.example", nil)
	require.Equal(t, http.StatusForbidden, w.Code)
}

// endless is a store with more dead letters than one request redrives.
type endless struct {
	api.Store

	positions []int64 // of the pages
}

func (s *endless) Redrive(
	_ context.Context, q store.DeadLetterQuery,
) (out store.RedriveResult, err error) {
	s.positions = append(s.positions, q.After.FinishedMS)
	for i := range int64(q.Limit) {
		out.Outcomes = append(out.Outcomes, timer.Outcome{
			Fire: timer.Fire{FireID: timer.FireID{Timer: 1, DueMS: 1}}, Kind: timer.Failed,
			FinishedMS: q.After.FinishedMS + i + 1,
		})
	}
	out.Next = store.PositionOf(&out.Outcomes[len(out.Outcomes)-1])
	return out, nil
}

// TestRedriveTheOthers goes on after a redrive of as many fires as one request takes.
func TestRedriveTheOthers(t *testing.T) {
	t.Parallel()
	const path = "/ui/apps/shop/dead-letters"
	s := &endless{}
	e := apitest.NewExecutor(t, func(o *api.Options) { s.Store, o.Store = o.Store, s })
	p := open(t, e.Fixture, true)
	form := url.Values{"confirmed": {"yes"}, "key": {"k"}, "failure": {"timeout"}}
	body := p.posted(path+"/redrive", form)
	require.Contains(t, body, "10000 fires are called again. There may be more")
	others := p.confirmation(body)
	require.Equal(t, "timeout", others.Get("failure"))
	require.NotEqual(t, "k", others.Get("key"))
	s.positions = nil
	require.Contains(t, p.posted(path+"/redrive", others), "10000 fires are called again.")
	require.EqualValues(t, 10_000, s.positions[0])
}

// sparse is a store whose dead letters match nothing so far.
type sparse struct{ api.Store }

func (s sparse) DeadLetters(
	context.Context, store.DeadLetterQuery,
) (store.DeadLetterPage, error) {
	return store.DeadLetterPage{Next: store.OutcomePosition{FinishedMS: 1}}, nil
}

// TestRedriveOfWhatIsNotFoundYet can go on after a preview that found nothing in its time.
func TestRedriveOfWhatIsNotFoundYet(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t, func(o *api.Options) { o.Store = sparse{o.Store} })
	e.Held(t, "shop", "bill", 1)
	p := open(t, e.Fixture, true)
	list := p.shown("/ui/apps/shop/dead-letters")
	require.Contains(t, list, "Go on searching")
	require.Contains(t, list, `action="/ui/apps/shop/dead-letters/redrive"`)
	ctx, cancel := context.WithTimeout(
		t.Context(),
		2900*time.Millisecond,
	) // of which a page takes 3 s
	defer cancel()
	form := url.Values{"failure": {"timeout"}}
	r := httptest.NewRequestWithContext(
		ctx,
		http.MethodPost,
		"/ui/apps/shop/dead-letters/redrive",
		strings.NewReader(form.Encode()),
	)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", own)
	body := p.send(r).Body.String()
	require.Contains(t, body, "0 fires would be called again. There may be more")
	require.Equal(t, "timeout", p.confirmation(body).Get("failure"))
}
