package callback_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestAReservedHeaderIsNeverSent checks that the trusted header is refused in definitions, and not
// sent for definitions older than that check.
func TestAReservedHeaderIsNeverSent(t *testing.T) {
	t.Parallel()
	called := false
	server := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }),
	)
	t.Cleanup(server.Close)
	net := callback.NetOptions{
		ReservedHeader: "X-Trusted-App",
		Egress:         egress.NewPolicy(egress.Options{AllowPrivate: true}),
		Secrets:        newKeyring(t),
	}
	byHTTP, err := callback.NewHTTP(callback.HTTPOptions{NetOptions: net})
	require.NoError(t, err)
	t.Cleanup(byHTTP.Close)
	byGRPC, err := callback.NewGRPC(callback.GRPCOptions{NetOptions: net})
	require.NoError(t, err)
	t.Cleanup(byGRPC.Close)
	out := &publisher{}
	byPulsar, err := callback.NewPulsar(
		callback.PulsarOptions{
			Publisher:      out,
			Topics:         topics(t, "persistent://shop/events/"),
			ReservedHeader: net.ReservedHeader,
		},
	)
	require.NoError(t, err)
	all := callback.Callers{
		timer.KindHTTP:   byHTTP,
		timer.KindGRPC:   byGRPC,
		timer.KindPulsar: byPulsar,
	}
	checks := callback.Checks{
		Kinds:          []timer.TargetKind{timer.KindHTTP, timer.KindGRPC, timer.KindPulsar},
		ReservedHeader: net.ReservedHeader,
	}
	for _, kind := range checks.Kinds {
		for _, name := range []string{"X-Trusted-App", "x-trusted-app", "X_Trusted-App"} {
			for _, secret := range []bool{false, true} {
				r := pulsarRequest()
				r.Target.Headers = nil
				if kind != timer.KindPulsar {
					r.Target = timer.Target{
						Kind: kind,
						URL:  map[timer.TargetKind]string{timer.KindHTTP: server.URL, timer.KindGRPC: "grpc://127.0.0.1:1"}[kind],
					}
				}
				require.NoError(t, checks.Target("target", &r.Target))
				if secret {
					r.Target.SecretHeaders = map[string]timer.Sealed{name: "sealed"}
				} else {
					r.Target.Headers = map[string][]string{name: {"admin:shop"}}
				}
				require.ErrorContains(
					t,
					checks.Target("target", &r.Target),
					"headers."+name+": expected another header, found the one by which a gateway says who calls",
				)
				got := all.Call(t.Context(), r)
				require.Equal(t, callback.Reject, got.Class, "%+v", got)
				require.Equal(t, timer.FailureInvalid, got.Failure)
				require.Contains(t, got.Error, name)
			}
		}
	}
	require.False(t, called)
	require.Zero(t, out.n)
}

// TestEveryRequestOfATimerIsMarked checks the header by which Carillon's listeners recognize a
// timer's request, also after a redirect to another origin, and on token requests.
func TestEveryRequestOfATimerIsMarked(t *testing.T) {
	t.Parallel()
	var unmarked []string
	check := func(r *http.Request) {
		if !egress.IsCallback(r) {
			unmarked = append(unmarked, r.URL.Path)
		}
	}
	end := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check(r)
		if r.URL.Path == "/token" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"access_token":"abc","token_type":"Bearer"}`))
		}
	}))
	t.Cleanup(end.Close)
	c, r := setup(t, func(w http.ResponseWriter, r *http.Request) {
		check(r)
		http.Redirect(w, r, end.URL+"/there", http.StatusTemporaryRedirect)
	})
	r.Target.Redirects = 1
	r.Target.Headers = map[string][]string{"carillon-fire-id": {}}
	require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	ring := newKeyring(t)
	withToken, err := callback.NewHTTP(callback.HTTPOptions{NetOptions: callback.NetOptions{
		Secrets: ring, Egress: egress.NewPolicy(egress.Options{AllowPrivate: true}),
	}})
	require.NoError(t, err)
	t.Cleanup(withToken.Close)
	r = requestTo(end.URL)
	r.App = "shop"
	r.Target.OAuth2 = &timer.OAuth2{
		TokenURL: end.URL + "/token",
		ClientID: "me",
		Secret:   ring.Seal(encryption.NewSecret("hunter2"), callback.SecretBinding(r.App)),
	}
	require.Equal(t, callback.Success, withToken.Call(t.Context(), r).Class)
	require.Empty(t, unmarked)
}
