package ui

import (
	"net/http"
	"time"
)

type madeKeyData struct {
	Name, Scope, Kind string
	Secret            string
	Public            string // of a signing key whose private part nobody sees
	Back              string // the page that lists the keys
}

// keysPath returns the path in the API of the keys of the request's app, or of the deployment.
func (q *request) keysPath(parts ...string) string {
	if q.app == "" {
		return "/keys" + pathOf(parts...)
	}
	return "/apps" + pathOf(append([]string{q.app, "keys"}, parts...)...)
}

// keysPage returns the path of the page that lists these keys.
func (q *request) keysPage() string {
	if q.app == "" {
		return Prefix + "/operations"
	}
	return q.appPath("app")
}

// madeKeyCookie has a key from when it is made until it is shown.
const madeKeyCookie = "carillon_made_key"

// showMadeKey shows a key that was just made, once.
func showMadeKey(q *request) error {
	var d madeKeyData
	if !q.takeOver(madeKeyCookie, &d) || d.Back != q.keysPage() {
		q.redirect(q.keysPage())
		return nil
	}
	setCookie(q.w, q.r, madeKeyCookie, "", -time.Second)
	return q.show("madekey", &d)
}

// createKey makes an API key, which the next page shows once. No address and no history has the key.
func createKey(q *request) error {
	in := map[string]string{"name": q.r.PostFormValue("name"), "scope": q.r.PostFormValue("scope")}
	var made apiKey
	err := q.do(http.MethodPost, q.keysPath(), in, &made)
	if err != nil && q.app == "" {
		return q.refuseOperations(err)
	}
	if err != nil {
		return q.refuseAt("keys", new(appData), err)
	}
	return q.handOver(madeKeyCookie, q.keysPage()+"/made-key", &madeKeyData{
		Name: made.Name, Scope: made.Scope, Secret: made.Key, Back: q.keysPage(),
	})
}

func revokeKey(q *request) error {
	path := q.keysPath(q.r.PathValue("id"))
	if err := q.do(http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	q.did(q.keysPage()+"#keys", "revoke")
	return nil
}

// createSigningKey makes a signing key and shows once what receivers verify by.
func createSigningKey(q *request) error {
	in := map[string]string{"kind": q.r.PostFormValue("kind")}
	var made signingKey
	if err := q.do(http.MethodPost, "/apps"+pathOf(q.app, "signing-keys"), in, &made); err != nil {
		return q.refuseAt("signing-keys", new(appData), err)
	}
	return q.handOver(madeKeyCookie, q.keysPage()+"/made-key", &madeKeyData{
		Kind: made.Kind, Secret: made.Secret, Public: made.Public, Back: q.keysPage(),
	})
}

func retireSigningKey(q *request) error {
	path := "/apps" + pathOf(q.app, "signing-keys", q.r.PathValue("id"))
	if err := q.do(http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	q.did(q.appPath("app")+"#signing-keys", "retire")
	return nil
}
