package callback_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// TestBlanksAroundValuesOfHeadersAreNotSent checks that all protocols send the same value, and that
// the value of a secret is redacted as it is sent.
func TestBlanksAroundValuesOfHeadersAreNotSent(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t)
	o := callback.NetOptions{Secrets: ring}
	plain := map[string][]string{"X-A": {" lead", "trail ", "b c"}}
	target := func(r *callback.Request) *callback.Request {
		r.Target.Headers = plain
		r.Target.SecretHeaders = map[string]timer.Sealed{
			"X-Key": ring.Seal(encryption.NewSecret(" hunter2 "), callback.SecretBinding("shop")),
		}
		return r
	}
	want := []string{"lead", "trail", "b c"}

	var got http.Header
	web := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			got = r.Header
			_, _ = io.WriteString(w, "thanks for "+r.Header.Get("X-Key"))
		}))
	web.Config.Protocols = new(http.Protocols)
	web.Config.Protocols.SetHTTP1(true)
	web.Config.Protocols.SetUnencryptedHTTP2(true)
	web.Start()
	t.Cleanup(web.Close)
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true, NetOptions: o})
	for _, version := range []timer.HTTP2{timer.HTTP2Never, timer.HTTP2Always} {
		r := target(requestTo(web.URL))
		r.Target.HTTP2 = version
		require.Equal(t, "thanks for REDACTED", c.Call(t.Context(), r).Excerpt, version)
		require.Equal(t, want, got["X-A"], version)
		require.Equal(t, "hunter2", got.Get("X-Key"), version)
	}

	var md metadata.MD
	address := serveGRPC(t, &receiver{
		answer: func(ctx context.Context, _ *carillonv1.DeliverRequest) (*carillonv1.DeliverResponse, error) {
			md, _ = metadata.FromIncomingContext(ctx)
			return &carillonv1.DeliverResponse{Message: "thanks for " + md.Get("x-key")[0]}, nil
		},
	})
	g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true, NetOptions: o})
	r := target(grpcRequest("grpc://" + address))
	require.Equal(t, "thanks for REDACTED", g.Call(t.Context(), r).Excerpt)
	require.Equal(t, want, md.Get("x-a"))
	require.Equal(t, []string{"hunter2"}, md.Get("x-key"))
	require.Equal(t, []string{" lead", "trail ", "b c"}, plain["X-A"], "of the definition")
}
