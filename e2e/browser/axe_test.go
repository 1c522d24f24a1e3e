package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAxeIsUnchanged(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte(axe))
	require.Equal(t,
		"29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c",
		hex.EncodeToString(sum[:]), "axe-core 4.14.1")
}

// TestFaultsAreSeen checks that a page with faults is not taken for a good one.
func TestFaultsAreSeen(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "script-src 'self'")
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<title>x</title><body style="color:#eee;background:#fff">
			<script>window.attacked = true</script><img src="/x.png">
			<div style="width:5000px">light</div>`)
	}))
	defer site.Close()
	tab := Start(t).Open(t, site.URL)
	tab.Go(t, "/")
	require.Contains(t, strings.Join(tab.Complaints(), "\n"), "Content Security Policy")
	found := strings.Join(tab.Violations(t), "\n")
	for _, want := range []string{"html-has-lang", "image-alt", "color-contrast", "wider than the view"} {
		require.Contains(t, found, want)
	}
	found = strings.Join(tab.Violations(t, Contrast), "\n")
	require.Contains(t, found, "color-contrast")
	require.NotContains(t, found, "image-alt")
	require.Positive(t, tab.Received())
	require.Empty(t, tab.Complaints())
}
