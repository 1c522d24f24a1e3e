package ui

import (
	"net/http"
)

type madeKeyData struct {
	Name, Scope, Kind string
	Secret            string
	Public            string // of a signing key whose private part nobody sees
}

// createAppKey makes an API key and shows it once. The answer is no redirect, so that no address
// and no history has the key.
func createAppKey(q *request) error {
	in := map[string]string{"name": q.r.PostFormValue("name"), "scope": q.r.PostFormValue("scope")}
	var made apiKey
	if err := q.do(http.MethodPost, "/apps"+pathOf(q.app, "keys"), in, &made); err != nil {
		return q.refuseAt("keys", new(appData), err)
	}
	return q.show("madekey", &madeKeyData{Name: made.Name, Scope: made.Scope, Secret: made.Key})
}

func revokeAppKey(q *request) error {
	path := "/apps" + pathOf(q.app, "keys", q.r.PathValue("id"))
	if err := q.do(http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	q.redirect(q.appPath("app") + "?did=revoke#keys")
	return nil
}

// createSigningKey makes a signing key and shows once what receivers verify by.
func createSigningKey(q *request) error {
	in := map[string]string{"kind": q.r.PostFormValue("kind")}
	var made signingKey
	if err := q.do(http.MethodPost, "/apps"+pathOf(q.app, "signing-keys"), in, &made); err != nil {
		return q.refuseAt("signing-keys", new(appData), err)
	}
	d := &madeKeyData{Kind: made.Kind, Secret: made.Secret, Public: made.Public}
	return q.show("madekey", d)
}

func retireSigningKey(q *request) error {
	path := "/apps" + pathOf(q.app, "signing-keys", q.r.PathValue("id"))
	if err := q.do(http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	q.redirect(q.appPath("app") + "?did=retire#signing-keys")
	return nil
}
