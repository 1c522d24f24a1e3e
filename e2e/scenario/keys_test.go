package scenario

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/receiver"
)

// TestKeysGrantOnlyTheirApp checks that each key allows what its scope says, in its own app only.
// Resources of another app are not found. No replica accepts a revoked key.
func TestKeysGrantOnlyTheirApp(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		other := env.app + "-other"
		id := env.active(t, "mine", client.Cron("0 0 1 1 *"), "/never")
		keys := map[string]client.Key{}
		for _, scope := range []string{"read", "write", "admin"} {
			k, err := env.api.CreateKey(t.Context(), env.app, scope, scope)
			require.NoError(t, err)
			keys[scope] = k
		}
		stranger, err := env.api.CreateKey(t.Context(), other, "stranger", "admin")
		require.NoError(t, err)
		status := func(err error) int {
			if e, ok := err.(*client.Error); ok { //nolint:errorlint // the client wraps none
				return e.Status
			}
			require.NoError(t, err)
			return http.StatusOK
		}
		try := func(key string) [4]int {
			c := env.api.WithKey(key)
			_, getErr := c.Get(t.Context(), env.app, id)
			_, pauseErr := c.Pause(t.Context(), env.app, id, "", time.Time{})
			_, keysErr := c.Keys(t.Context(), env.app)
			_, otherErr := c.Get(t.Context(), other, id)
			return [4]int{status(getErr), status(pauseErr), status(keysErr), status(otherErr)}
		}
		require.Equal(t, [4]int{401, 401, 401, 401}, try(""))
		require.Equal(t, [4]int{200, 403, 403, 404}, try(keys["read"].Key))
		require.Equal(t, [4]int{200, 200, 403, 404}, try(keys["write"].Key))
		require.Equal(t, [4]int{200, 200, 200, 404}, try(keys["admin"].Key))
		require.Equal(t, [4]int{404, 404, 404, 404}, try(stranger.Key))
		require.NoError(t, env.api.RevokeKey(t.Context(), env.app, keys["write"].ID))
		pause(t, 5*time.Second)
		for range 6 { // more often than there are replicas
			require.Equal(t, [4]int{401, 401, 401, 401}, try(keys["write"].Key))
		}
		require.Equal(t, [4]int{200, 200, 200, 404}, try(keys["admin"].Key))
	})
}

// TestSignaturesVerify checks that the endpoint can verify both signatures of a callback with the
// keys' public data, and one signature after a key is retired.
func TestSignaturesVerify(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		shared, err := env.api.CreateSigningKey(t.Context(), env.app, "hmac")
		require.NoError(t, err)
		public, err := env.api.CreateSigningKey(t.Context(), env.app, "ed25519")
		require.NoError(t, err)
		env.rcv.Script("/signed", receiver.Script{Keep: true})
		target := client.Post(env.rcv.URL("/signed"))
		target.Body = `{"pay":"1000 €"}`
		signed := func(name string) receiver.Request {
			before := len(env.rcv.Requests("/signed"))
			env.once(t, client.NewTimer{Name: name, Target: target}, soon(5*time.Second))
			env.settle(t)
			got := env.rcv.Requests("/signed")
			require.Len(t, got, before+1)
			return got[before]
		}
		first := signed("both")
		require.Equal(t, 2, verified(t, &first, shared.Secret, public.Public))
		first.Body = []byte(`{"pay":"9000 €"}`)
		require.Zero(t, verified(t, &first, shared.Secret, public.Public), "another body")

		require.NoError(t, env.api.RetireSigningKey(t.Context(), env.app, shared.ID))
		pause(t, 2*time.Second)
		second := signed("one")
		require.Equal(t, 1, verified(t, &second, shared.Secret, public.Public))
	})
}

// verified returns how many of a callback's signatures are valid. It implements the scheme's text
// and shares no code with the signer.
func verified(t *testing.T, r *receiver.Request, secret, public string) int {
	t.Helper()
	id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
	require.Equal(t, r.Header.Get("Carillon-Fire-Id"), id)
	message := []byte(id + "." + at + "." + string(r.Body))
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	require.NoError(t, err)
	pub, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(public, "whpk_"))
	require.NoError(t, err)
	n := 0
	for one := range strings.SplitSeq(r.Header.Get("Webhook-Signature"), " ") {
		version, text, _ := strings.Cut(one, ",")
		sig, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		switch version {
		case "v1":
			h := hmac.New(sha256.New, key)
			h.Write(message)
			if hmac.Equal(h.Sum(nil), sig) {
				n++
			}
		case "v1a":
			if ed25519.Verify(pub, message, sig) {
				n++
			}
		}
	}
	return n
}
