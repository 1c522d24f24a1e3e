package cli_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLostAnswersAreRepeatedOnce loses the answers of commands that make something anew each time. The
// error has the key under which a repetition is done once.
func TestLostAnswersAreRepeatedOnce(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	var keys []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`{"id":"7","name":"bill","items":[{"id":"7","name":"bill"}]}`))
		case r.URL.Query().Has("dry_run"):
			_, _ = w.Write([]byte(`{"total":1,"action":"run"}`))
		default:
			keys = append(keys, r.Header.Get("Idempotency-Key"))
			if lost.Load() {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte(`{"id":"9","status":"done"}`))
		}
	}))
	defer s.Close()
	u := newUser(t, s.URL)
	key := regexp.MustCompile(`--idempotency-key (\w+)`)
	for _, args := range []string{
		"timer run bill", "timer run --all --yes --no-wait", "backfill start bill --from -24h",
	} {
		lost.Store(true)
		keys = nil
		said := u.refused(strings.Fields(args)...)
		require.Contains(t, said, "it may have been done", args)
		named := key.FindStringSubmatch(said)
		require.NotNil(t, named, said)
		lost.Store(false)
		u.do(append(strings.Fields(args), "--idempotency-key", named[1])...)
		// Go's client sends a request with a key again itself, if a connection ends that it had kept.
		require.GreaterOrEqual(t, len(keys), 2, args)
		require.Equal(t, named[1:], slices.Compact(keys), args)
	}
	s.Close()
	require.NotContains(
		t,
		u.refused("timer", "run", "bill"),
		"may have been done",
		"nobody listens",
	)
}
