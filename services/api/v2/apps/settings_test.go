package apps_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

type v2Settings struct {
	App        string
	Rate       float64
	Burst      int
	Concurrent int
	Allow      []string
	Version    int
}

func TestV2Settings(t *testing.T) {
	t.Parallel()
	rule, err := egress.ParseRule("10.9.0.0/16:8080")
	require.NoError(t, err)
	f, admin := apitest.Guarded(
		t,
		func(o *api.Options) { o.Egress = egress.NewPolicy(egress.Options{Allow: []egress.Rule{rule}}) },
	)
	const path = "/api/v2/apps/shop/settings"
	put := func(key, body string) apitest.Answer {
		return f.Call(t, http.MethodPut, path, body, apitest.Bearer(key))
	}
	require.Equal(t, 404, f.Call(t, http.MethodGet, path, "", apitest.Bearer(admin)).Status)
	own := f.MakeKey(t, admin, "shop", "admin").Key

	var got v2Settings
	put(
		own,
		`{"rate":50.5,"burst":10,"concurrent":20,"allow":["10.9.0.0/16:8080"]}`,
	).Into(t, 200, &got)
	require.Equal(
		t,
		v2Settings{"shop", 50.5, 10, 20, []string{"10.9.0.0/16:8080"}, got.Version},
		got,
	)
	var same v2Settings
	f.Call(t, http.MethodGet, path, "", apitest.Bearer(own)).Into(t, 200, &same)
	require.Equal(t, got, same)

	// Only the deployment may open more than its own policy.
	a := put(own, `{"allow":["10.1.0.0/16:8080"]}`)
	require.Equal(t, 403, a.Status)
	require.Contains(t, a.Body, "admin key of the deployment")
	put(
		admin,
		`{"rate":1,"allow":["10.1.0.0/16:8080","hooks.internal:443,8443"]}`,
	).Into(t, 200, &got)
	put(own, `{"rate":2,"allow":["hooks.internal:443,8443"]}`).Into(t, 200, &got)
	require.Equal(t, []string{"hooks.internal:443,8443"}, got.Allow)
	require.Equal(
		t,
		403,
		put(own, `{"allow":["10.1.0.0/16:8080"]}`).Status,
		"what was taken away comes not back by itself",
	)
	put(own, `{}`).Into(t, 200, &got)
	require.Equal(t, v2Settings{"shop", 0, 0, 0, []string{}, got.Version}, got)

	require.Equal(t, 409, put(own, `{"rate":3,"if_version":1}`).Status)
	for body, want := range map[string]string{
		`{"rate":-1}`: "body.rate", `{"rate":2000000}`: "body.rate", `{"burst":-1}`: "body.burst", `{"concurrent":-1}`: "body.concurrent",
		`{"allow":["x y"]}`: "body.allow[0]", `{"allow":["10.0.0.0/99"]}`: "body.allow[0]", `{"rate":0.0001}`: "body.rate",
	} {
		var p apitest.V2Problem
		put(admin, body).Into(t, 422, &p)
		require.Equal(t, want, p.Errors[0].Location, body)
	}
	require.Equal(
		t,
		422,
		f.Call(
			t,
			http.MethodPut,
			"/api/v2/apps/carillon/settings",
			`{}`,
			apitest.Bearer(admin),
		).Status,
	)
}

// racing is a store in which an operator changes the settings between an app's read and its write.
type racing struct {
	api.Store

	between func()
}

func (r *racing) PutSettings(
	ctx context.Context,
	app string,
	s store.AppSettings,
	version int64,
) (store.App, error) {
	if do := r.between; do != nil {
		r.between = nil
		do()
	}
	return r.Store.PutSettings(ctx, app, s, version)
}

// TestV2ConcurrentSettingsChanges checks that an app cannot restore a rule that is being removed by
// guessing the next version.
func TestV2ConcurrentSettingsChanges(t *testing.T) {
	t.Parallel()
	r := &racing{}
	f, admin := apitest.Guarded(t, func(o *api.Options) { r.Store, o.Store = o.Store, r })
	const path, rule = "/api/v2/apps/shop/settings", "10.1.0.0/16:8080"
	own := f.MakeKey(t, admin, "shop", "admin").Key
	for _, ahead := range []int{0, 1, 2} {
		var had v2Settings
		f.Call(t, http.MethodPut, path, `{"allow":["`+rule+`"]}`, apitest.Bearer(admin)).
			Into(t, 200, &had)
		r.between = func() {
			_, err := f.Store.PutSettings(t.Context(), "shop", store.AppSettings{}, 0)
			require.NoError(t, err)
		}
		a := f.Call(
			t,
			http.MethodPut,
			path,
			fmt.Sprintf(`{"allow":["%s"],"if_version":%d}`, rule, had.Version+ahead),
			apitest.Bearer(own),
		)
		require.Equal(t, 409, a.Status, a.Body)
		if r.between != nil { // refused before the write
			r.between()
			r.between = nil
		}
		now, err := f.Store.App(t.Context(), "shop")
		require.NoError(t, err)
		require.Empty(t, now.Settings.Allow)
	}
}

// TestV2SettingsOfADeletedApp checks that a change says that the app is being deleted, with an expected
// version and without.
func TestV2SettingsOfADeletedApp(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const path = "/api/v2/apps/shop/settings"
	var had v2Settings
	f.Call(t, http.MethodPut, path, `{"rate":1}`, nil).Into(t, 200, &had)
	a := f.Call(t, http.MethodDelete, "/api/v2/apps/shop?confirm=shop", "", nil)
	require.Equal(t, http.StatusAccepted, a.Status, a.Body)
	for _, body := range []string{`{"rate":2}`, fmt.Sprintf(`{"rate":2,"if_version":%d}`, had.Version)} {
		p := f.Problem(t, http.StatusConflict, http.MethodPut, path, body)
		require.Equal(t, "path.app", p.Errors[0].Location)
		require.Contains(t, p.Detail, "wait until its job delete_app is done")
	}
}

func TestV2SigningKeys(t *testing.T) {
	t.Parallel()
	ring := apitest.Keyring(t)
	f := apitest.Setup(t, func(o *api.Options) { o.Secrets = ring })
	const path = "/api/v2/apps/shop/signing-keys"
	var hmac, ed struct{ ID, Kind, Secret, Public string }
	f.Call(t, http.MethodPost, path, `{}`, nil).Into(t, 201, &hmac)
	require.Equal(t, "hmac", hmac.Kind)
	require.True(t, strings.HasPrefix(hmac.Secret, "whsec_"))
	_, err := signing.ParseKey(hmac.Secret)
	require.NoError(t, err)
	f.Call(t, http.MethodPost, path, `{"kind":"ed25519"}`, nil).Into(t, 201, &ed)
	require.Empty(t, ed.Secret)
	require.True(t, strings.HasPrefix(ed.Public, "whpk_"))
	var second struct{ ID string }
	f.Call(t, http.MethodPost, path, `{}`, nil).Into(t, 201, &second)
	require.Equal(
		t,
		409,
		f.Call(t, http.MethodPost, path, `{}`, nil).Status,
		"two of a kind live at once",
	)
	f.Call(t, http.MethodPost, path, `{"kind":"ed25519"}`, nil).Into(t, 201, &second)
	require.Equal(t, 409, f.Call(t, http.MethodPost, path, `{"kind":"ed25519"}`, nil).Status)

	list := f.Call(t, http.MethodGet, path, "", nil)
	require.Equal(t, 200, list.Status)
	require.NotContains(t, list.Body, hmac.Secret)
	require.Contains(t, list.Body, ed.Public)
	stored, err := f.Store.SigningKeys(t.Context(), "shop")
	require.NoError(t, err)
	require.Len(t, stored, signing.MaxKeys)
	for _, k := range stored {
		secret, err := ring.Open(
			k.Secret,
			encryption.Binding{App: "shop", Use: encryption.UseSigning},
		)
		require.NoError(t, err)
		key, err := signing.ParseKey(secret.Reveal())
		require.NoError(t, err)
		require.Equal(t, k.Public, key.Public())
	}
	require.Equal(
		t,
		404,
		f.Call(t, http.MethodDelete, "/api/v2/apps/desk/signing-keys/"+hmac.ID, "", nil).Status,
	)
	require.Equal(t, 204, f.Call(t, http.MethodDelete, path+"/"+hmac.ID, "", nil).Status)
	require.Equal(t, 404, f.Call(t, http.MethodDelete, path+"/"+hmac.ID, "", nil).Status)
	f.Call(t, http.MethodPost, path, `{}`, nil).Into(t, 201, &hmac)
}
