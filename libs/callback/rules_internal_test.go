package callback

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TestExpensiveRulesTakeTurns checks that what may take long waits for its turn, and nothing else.
func TestExpensiveRulesTakeTurns(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("a", 32<<10)+"b")
	}))
	t.Cleanup(server.Close)
	h, err := NewHTTP(HTTPOptions{AllowPrivate: true})
	require.NoError(t, err)
	t.Cleanup(h.Close)
	call := func(ctx context.Context, rule string, timeout time.Duration) Result {
		return h.Call(ctx, &Request{
			App: "shop",
			Target: timer.Target{
				Kind: timer.KindHTTP, Method: http.MethodPost, URL: server.URL,
				Success: &timer.Success{Body: rule},
			},
			Timeout: timeout,
		})
	}
	const cheap, expensive = "b$", "a{200}b$"
	require.Equal(t, Success, call(t.Context(), expensive, time.Minute).Class)
	for range cap(h.rules.turns) {
		h.rules.turns <- struct{}{}
	}
	require.Equal(t, Success, call(t.Context(), cheap, time.Minute).Class)

	got := call(t.Context(), expensive, 2*time.Second)
	require.Equal(t, Retry, got.Class)
	require.Equal(t, timer.FailureRule, got.Failure, got.Error)
	require.Contains(t, got.Error, "others kept the success rule from being tried within 2s")
	require.Equal(t, int32(http.StatusOK), got.StatusCode)
	require.False(t, EndpointFailed(&got))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan Result, 1)
	go func() { ended <- call(ctx, expensive, time.Minute) }()
	cancel()
	require.Equal(t, timer.FailureCanceled, (<-ended).Failure)

	<-h.rules.turns
	require.Equal(t, Success, call(t.Context(), expensive, time.Minute).Class)
	require.Len(t, h.rules.turns, cap(h.rules.turns)-1)

	// A part of a body is matched though the time is over.
	re, err := h.rules.get(expensive)
	require.NoError(t, err)
	over, end := context.WithCancel(t.Context())
	end()
	for range 20 {
		matches, err := h.rules.match(over, re, []byte(strings.Repeat("a", 32<<10)+"b"))
		require.NoError(t, err)
		require.True(t, matches)
	}
}
