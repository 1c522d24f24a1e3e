package ui

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/signin"
)

// Prefix is the path below which the page is.
const Prefix = "/ui"

//go:embed static
var static embed.FS

// contentPolicy forbids scripts and styles in the markup, and everything of other sites.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; " +
	"img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; " +
	"base-uri 'none'"

// Options are the dependencies of a Page.
type Options struct {
	API         http.Handler     // of version 2
	Keyless     bool             // the API requires no keys, so nobody signs in
	TrustHeader string           // by which a gateway names the viewer; empty: none
	SignIn      *signin.Provider // by which people sign in; nil: by API keys only
	Ends        *signin.Ends     // since when sessions of people count; needed with SignIn
	SessionKeys [][]byte         // of sessions; none: sessions end with the process
	Now         func() time.Time
	Retention   time.Duration // of finished fires
	Logger      zerolog.Logger
}

// Page is the page in the browser.
type Page struct {
	opts     Options
	sessions *sessions
	views    map[string]*views // by language
	handler  http.Handler
}

// New returns the page.
func New(o Options) (*Page, error) {
	c := options.Of("ui")
	c.Need("API", o.API == nil)
	c.Need("Now", o.Now == nil)
	c.Need("Ends", o.SignIn.SignsIn() && o.Ends == nil)
	if err := c.Err(); err != nil {
		return nil, err
	}
	s, err := newSessions(o.SessionKeys, o.Now)
	if err != nil {
		return nil, err
	}
	v, err := loadViews()
	if err != nil {
		return nil, err
	}
	p := &Page{opts: o, sessions: s, views: v}
	p.handler = p.routes()
	return p, nil
}

// ServeHTTP serves the page.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

func (p *Page) routes() http.Handler {
	mux := http.NewServeMux()
	files, _ := fs.Sub(static, "static") // the name is valid
	mux.Handle("GET "+Prefix+"/static/", http.StripPrefix(Prefix+"/static/", cached(files)))
	mux.Handle("GET "+Prefix+"/{$}", p.page(showApps))
	mux.Handle("GET "+Prefix+"/sign-in", p.open(showSignIn))
	mux.Handle("POST "+Prefix+"/sign-in", p.open(signIn))
	if p.opts.SignIn.SignsIn() {
		mux.Handle("GET "+Prefix+"/sign-in/start", p.open(startSignIn))
		mux.Handle("GET "+callbackPath, p.open(finishSignIn))
	}
	mux.Handle("POST "+Prefix+"/sign-out", p.open(signOut))
	mux.Handle("POST "+Prefix+"/choice", p.open(setChoice))
	mux.Handle("GET "+Prefix+"/open", p.page(openApp))
	app := Prefix + "/apps/{app}"
	mux.Handle("GET "+app, p.page(func(q *request) error {
		q.redirect(q.appPath("overview"))
		return nil
	}))
	mux.Handle("GET "+app+"/overview", p.page(showOverview))
	mux.Handle("GET "+app+"/overview/now", p.page(showNow))
	mux.Handle("GET "+app+"/overview/hour", p.page(showHour))
	mux.Handle("GET "+app+"/fires", p.page(listFires))
	mux.Handle("GET "+app+"/timers", p.page(listTimers))
	mux.Handle("GET "+app+"/timers/new", p.page(showEditor))
	mux.Handle("POST "+app+"/timers/new", p.editor(saveTimer))
	mux.Handle("POST "+app+"/timers/new/sync", p.editor(syncEditor))
	mux.Handle("POST "+app+"/timers/new/test", p.editor(testTimer))
	mux.Handle("GET "+app+"/timers/{id}/edit", p.page(showEditor))
	mux.Handle("POST "+app+"/timers/{id}/edit", p.editor(saveTimer))
	mux.Handle("POST "+app+"/timers/{id}/edit/sync", p.editor(syncEditor))
	mux.Handle("POST "+app+"/timers/{id}/edit/test", p.editor(testTimer))
	mux.Handle("GET "+app+"/timers/{id}", p.page(showTimer))
	mux.Handle("POST "+app+"/timers/{id}/{action}", p.page(changeTimer))
	mux.Handle("GET "+app+"/fires/{id}", p.page(showFire))
	mux.Handle("POST "+app+"/fires/{id}/redrive", p.page(redriveFire))
	mux.Handle("POST "+app+"/fires/{id}/complete", p.page(completeFire))
	mux.Handle("POST "+app+"/jobs", p.page(startJob))
	mux.Handle("GET "+app+"/jobs/{id}", p.page(showJob))
	mux.Handle("POST "+app+"/jobs/{id}/cancel", p.page(cancelJob))
	p.addManagement(mux, app)
	mux.Handle(Prefix+"/", p.open(func(q *request) error {
		return &apiError{Status: http.StatusNotFound}
	}))
	// Cookies are SameSite=Strict; this also refuses other origins where nobody signs in.
	guarded := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		// With "no-referrer" browsers send "Origin: null" with forms. Over plain HTTP at a host that is
		// not local that is all they send, and the form would be refused.
		h.Set("Referrer-Policy", "same-origin")
		guarded.ServeHTTP(w, r)
	})
}

// cached serves the embedded files. Their addresses name a version, so browsers keep them.
func cached(files fs.FS) http.Handler {
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" || strings.HasSuffix(r.URL.Path, "/") {
			http.NotFound(w, r)
			return
		}
		if r.URL.Query().Get("v") == assetVersion() {
			w.Header().Set("Cache-Control", "private, max-age=604800, immutable")
		}
		serve.ServeHTTP(w, r)
	})
}

// request is one request of a viewer.
type request struct {
	*client

	page   *Page
	w      http.ResponseWriter
	r      *http.Request
	views  *views
	app    string
	signed bool // a session's key is the credential
	known  *callerBody
	state  *appState

	unknown error // it is not known whether the viewer's session was ended
	read    bool  // the form was read, perhaps in part
	unread  error // why it was not read to its end
}

// page returns a handler for viewers with credentials. Others are sent to sign in.
func (p *Page) page(h func(*request) error) http.Handler { return p.serve(known(withForm(h))) }

// editor is page for the forms of the editor.
func (p *Page) editor(h func(*request) error) http.Handler { return p.serve(known(withEditor(h))) }

// open returns a handler for viewers whom nobody needs to know.
func (p *Page) open(h func(*request) error) http.Handler { return p.serve(withForm(h)) }

// known refuses viewers without credentials.
func known(h func(*request) error) func(*request) error {
	return func(q *request) error {
		if q.unknown != nil {
			return q.unknown
		}
		if len(q.header) == 0 && q.person == nil && !q.page.opts.Keyless {
			return &apiError{Status: http.StatusUnauthorized}
		}
		return h(q)
	}
}

// serve returns a handler that shows errors of h to the viewer.
func (p *Page) serve(h func(*request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // answers belong to one viewer
		q := &request{page: p, w: w, r: r, views: p.views[languageOf(r)], app: r.PathValue("app")}
		q.client = &client{api: p.opts.API, viewer: r}
		q.header, q.signed = p.credentials(r)
		if !p.opts.Keyless {
			q.person, q.unknown = p.person(r)
		}
		q.signed = q.signed || q.person != nil
		if err := h(q); err != nil {
			q.fail(err)
		}
	})
}

// credentials returns the headers by which the API knows the viewer, and whether they come from a
// session. A gateway's header is passed on where there is no session, because the API lets it count
// before a key: the API checks that the connection is the gateway's.
func (p *Page) credentials(r *http.Request) (http.Header, bool) {
	h := make(http.Header)
	if p.opts.Keyless {
		return h, false
	}
	if key, err := p.sessions.key(r); err == nil {
		h.Set("Authorization", "Bearer "+key)
		return h, true
	}
	if name := p.opts.TrustHeader; name != "" {
		if values := r.Header.Values(name); len(values) > 0 {
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
	return h, false
}

// failedPage is an error, and the page from which the viewer sent the form that led to it.
type failedPage struct {
	Problem *apiError
	Back    string
}

// fail shows an error. A viewer whom the API does not know is sent to sign in.
func (q *request) fail(err error) {
	var refused *apiError
	if !errors.As(err, &refused) {
		q.page.opts.Logger.Error().Err(err).Str("path", q.r.URL.Path).Msg("page not shown")
		refused = &apiError{Status: http.StatusInternalServerError}
	}
	if refused.Status == http.StatusUnauthorized && q.r.URL.Path != Prefix+"/sign-in" {
		q.askToSignIn()
		return
	}
	if refused.Status == http.StatusUnprocessableEntity && refused.isAbout("path.id") {
		refused = &apiError{Status: http.StatusNotFound} // no page has that address
	}
	back := ""
	if q.r.Method == http.MethodPost {
		back = q.origin()
		if refused.Status == http.StatusServiceUnavailable && q.keepEntered(refused) {
			return
		}
	}
	if err := q.render(refused.Status, "error", &failedPage{refused, back}); err != nil {
		q.page.opts.Logger.Error().Err(err).Msg("error not shown")
	}
}

// keepEntered shows the editor with what the viewer sent, where nobody could look at that, because it
// is not known for now who they are. It reports whether it did.
func (q *request) keepEntered(refused *apiError) bool {
	if !q.isEditor() || q.readForm(input.MaxRequestBytes) != nil {
		return false
	}
	d, shown := q.enteredEditor(), *refused
	shown.Detail = cmp.Or(shown.Detail, q.views.texts.get("nothing_saved"))
	d.Refused = &shown
	if err := q.render(refused.Status, "editor", d); err != nil {
		q.page.opts.Logger.Error().Err(err).Msg("editor not shown")
	}
	return true
}

// askToSignIn sends the viewer to sign in, and then back. A part of a page that is refreshed has the
// whole page go there: a redirect would put the form in place of the part. The editor stays, because
// it has what the viewer typed.
func (q *request) askToSignIn() {
	part, post := q.r.Header.Get("Hx-Request") != "", q.r.Method == http.MethodPost
	unread := q.readForm(input.MaxRequestBytes)
	next := ""
	switch {
	case part:
		if at, err := url.Parse(q.r.Header.Get("Hx-Current-Url")); err == nil {
			next = at.RequestURI()
		}
	case q.r.Method == http.MethodGet:
		next = q.r.URL.RequestURI()
	case q.isEditor():
		next = q.r.URL.RequestURI()
	default:
		next = q.origin()
	}
	to := Prefix + "/sign-in"
	if next != "" {
		to += "?next=" + url.QueryEscape(next)
	}
	switch {
	case part && post && strings.HasSuffix(q.r.URL.Path, "/test"): // beside its button
		d := q.enteredEditor()
		d.TestSignIn = to
		q.w.Header().Set("Hx-Retarget", "#test-call")
		if err := q.showPart("editor", "tested", d); err != nil {
			q.page.opts.Logger.Error().Err(err).Msg("sign-in not shown")
		}
	case part && post:
		q.w.Header().Set("Hx-Retarget", "#signed-out")
		q.w.Header().Set("Hx-Reswap", "innerHTML")
		if err := q.showPart("editor", "signed-out", to); err != nil {
			q.page.opts.Logger.Error().Err(err).Msg("sign-in not shown")
		}
	case part:
		q.w.Header().Set("Hx-Redirect", to)
	case post && q.isEditor() && unread != nil:
		q.fail(unread)
	case post && q.isEditor():
		d := q.enteredEditor()
		if q.r.PostFormValue("do") == "test" {
			d.TestSignIn = to
		} else {
			d.SignIn = to
		}
		if err := q.render(http.StatusUnauthorized, "editor", d); err != nil {
			q.page.opts.Logger.Error().Err(err).Msg("editor not shown")
		}
	default:
		q.redirect(to)
	}
}

// isEditor reports whether a request is for the editor of a timer.
func (q *request) isEditor() bool {
	return strings.HasSuffix(q.r.URL.Path, "/timers/new") ||
		strings.HasSuffix(q.r.URL.Path, "/edit")
}

// origin returns the page from which the viewer sent a form, or nothing if the browser does not tell.
func (q *request) origin() string {
	from, err := url.Parse(q.r.Referer())
	if err != nil || from.Host != q.r.Host {
		return ""
	}
	if to := from.RequestURI(); inside(to) == to {
		return to
	}
	return ""
}

// redirect sends the viewer to another page. htmx follows it as browsers do.
func (q *request) redirect(to string) {
	http.Redirect(q.w, q.r, to, http.StatusSeeOther)
}

// appPath returns the path of a page of the request's app.
func (q *request) appPath(parts ...string) string {
	return Prefix + "/apps" + pathOf(append([]string{q.app}, parts...)...)
}

// render writes a page.
func (q *request) render(status int, name string, data any) error {
	f := q.frame(data)
	if q.app != "" && name != "error" && status != http.StatusUnauthorized {
		var err error
		if f.State, err = q.readApp(); err != nil { // the page has what it is about
			q.page.opts.Logger.Debug().Err(err).Msg("app of the page not known")
		}
	}
	body, err := q.views.render(name, f)
	if err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.w.WriteHeader(status)
	_, _ = q.w.Write(body) // the viewer is gone: nobody to tell
	return nil
}

// showPart writes a part of a page, which replaces that part where the page is shown.
func (q *request) showPart(name, part string, data any) error {
	body, err := q.views.renderPart(name, part, q.frame(data))
	if err != nil {
		return fmt.Errorf("part %s of page %s: %w", part, name, err)
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = q.w.Write(body) // the viewer is gone: nobody to tell
	return nil
}

// show writes a page with status 200.
func (q *request) show(name string, data any) error {
	return q.render(http.StatusOK, name, data)
}
