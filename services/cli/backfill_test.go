package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBackfillEndsByTheClockOfTheAPI checks that a backfill has an end only if the caller names one:
// the API refuses an instant after its own now, which this clock may be ahead of.
func TestBackfillEndsByTheClockOfTheAPI(t *testing.T) {
	t.Parallel()
	var sent string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			sent = string(body)
		}
		_, _ = io.WriteString(w, `{"id":"7","items":[{"id":"7","name":"7"}],"status":"done"}`)
	}))
	t.Cleanup(s.Close)
	u := newUser(t, s.URL)
	u.do("backfill", "start", "7", "--from", "2026-01-01T00:00:00Z")
	require.JSONEq(t, `{"from":"2026-01-01T00:00:00Z"}`, sent)
	u.do("backfill", "start", "7", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T00:00:00Z")
	require.JSONEq(t, `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`, sent)
	_, err := u.try("backfill", "start", "7", "--from", "-1h", "--to", "")
	require.ErrorContains(t, err, "--to: expected", "a script's empty variable")
}
