package pulsarbus

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
)

// TestAdminLogin checks what the test server does not: the admin API gets the token.
func TestAdminLogin(t *testing.T) {
	t.Parallel()
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
	}))
	defer server.Close()
	c := &Config{
		AdminURL: server.URL,
		Tokens:   oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "hunter2"}),
	}
	r, err := newREST(c)
	require.NoError(t, err)
	defer r.client.CloseIdleConnections()
	require.NoError(t, r.do(t.Context(), http.MethodGet, "/", nil, nil))
	require.Equal(t, "Bearer hunter2", got)

	c.Tokens = noTokens{}
	r, err = newREST(c)
	require.NoError(t, err)
	require.ErrorIs(t, r.do(t.Context(), http.MethodGet, "/", nil, nil), errNoToken)
}

var errNoToken = errors.New("the issuer is unavailable")

type noTokens struct{}

func (noTokens) Token() (*oauth2.Token, error) { return nil, errNoToken }

// TestManyConsumersAreSeen asks for the statistics of a topic that has as many consumers as a large
// deployment.
func TestManyConsumersAreSeen(t *testing.T) {
	t.Parallel()
	const partitions, consumers = 64, 100
	type consumer struct{ ConsumerName, Metadata string }
	all := map[string]any{}
	for i := range partitions {
		var some []consumer
		for n := range consumers {
			some = append(some, consumer{fmt.Sprint("carillon-", n), strings.Repeat("x", 800)})
		}
		sub := map[string]any{"executors": map[string]any{"consumers": some}}
		all[fmt.Sprint("persistent://t/n/tasks-partition-", i)] = map[string]any{
			"subscriptions": sub,
		}
	}
	answer, err := json.Marshal(map[string]any{"partitions": all})
	require.NoError(t, err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/partitions") {
			fmt.Fprintf(w, `{"partitions":%d}`, partitions)
			return
		}
		_, _ = w.Write(answer)
	}))
	defer s.Close()
	b := &Bus{config: Config{Tenant: "t", Namespace: "n"}}
	b.rest, err = newREST(&Config{AdminURL: s.URL})
	require.NoError(t, err)
	defer b.rest.client.CloseIdleConnections()
	for name, known := range map[string]bool{"carillon-99": true, "carillon-x": false} {
		got, err := b.isConnected(t.Context(), "tasks", name)
		require.NoError(t, err)
		require.Equal(t, known, got, name)
	}
}
