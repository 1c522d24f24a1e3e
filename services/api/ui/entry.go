package ui

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

const choiceLength = 365 * 24 * time.Hour

// showApps lists the apps that the viewer may see.
func showApps(q *request) error {
	query := url.Values{"limit": {"100"}}
	if c := q.r.URL.Query().Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	var list appList
	if err := q.get("/apps", query, &list); err != nil {
		return err
	}
	return q.show("apps", &list)
}

// openApp shows an app by its name, which an app without timers has, too.
func openApp(q *request) error {
	app := strings.TrimSpace(q.r.URL.Query().Get("app"))
	if app == "" {
		q.redirect(Prefix + "/")
		return nil
	}
	q.redirect(Prefix + "/apps" + pathOf(app, "overview"))
	return nil
}

type signInData struct {
	Next     string
	Why      string // the sign-in was refused
	Provider bool   // people sign in by an identity provider
}

func showSignIn(q *request) error {
	return q.show("signin", &signInData{
		Next: q.r.URL.Query().Get("next"), Provider: q.page.opts.SignIn.SignsIn(),
	})
}

// signIn starts a session if the API knows the key.
func signIn(q *request) error {
	key := strings.TrimSpace(q.r.PostFormValue("key"))
	next := q.r.PostFormValue("next")
	q.person = nil
	q.header = http.Header{"Authorization": {"Bearer " + key}}
	if err := q.get("/apps", url.Values{"limit": {"1"}}, nil); err != nil {
		if hasStatus(err, http.StatusUnauthorized) {
			return q.render(http.StatusUnauthorized, "signin", &signInData{
				Next: next, Why: "key_unknown", Provider: q.page.opts.SignIn.SignsIn(),
			})
		}
		return err
	}
	q.page.sessions.start(q.w, q.r, key)
	q.forget()
	q.redirect(inside(next))
	return nil
}

func signOut(q *request) error {
	q.page.sessions.end(q.w, q.r)
	q.forget()
	if q.person != nil {
		if to := q.page.opts.SignIn.EndSession(
			q.r.Context(), originOf(q.r), Prefix+"/sign-in",
		); to != "" {
			// The page opens the next one, and does not redirect: the policy of the page's content
			// forbids forms that lead to another site.
			q.w.Header().Set("Refresh", "0; url="+to)
			return q.show("signedout", to)
		}
	}
	to := Prefix + "/sign-in"
	if name := q.page.opts.TrustHeader; name != "" && q.r.Header.Get(name) != "" {
		to = Prefix + "/" // now the gateway's header counts
	}
	q.redirect(to)
	return nil
}

// setChoice keeps the viewer's language or theme.
func setChoice(q *request) error {
	if l := q.r.PostFormValue("language"); l == "en" || l == "zh" {
		setCookie(q.w, q.r, languageCookie, l, choiceLength)
	}
	if t := q.r.PostFormValue("theme"); t == "auto" || t == "dark" || t == "light" {
		setCookie(q.w, q.r, themeCookie, t, choiceLength)
	}
	q.redirect(inside(q.r.PostFormValue("next")))
	return nil
}

// inside returns a path of the page, so that a link cannot send a viewer to another site.
func inside(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, Prefix+"/") ||
		!strings.HasPrefix(path.Clean(u.Path)+"/", Prefix+"/") ||
		strings.ContainsAny(next, "\\\r\n") || strings.HasPrefix(next, Prefix+"/sign-in") {
		return Prefix + "/"
	}
	return next
}
