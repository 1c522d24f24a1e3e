package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDescriptionIsRenderedOnce checks that the description is rendered once, because it is served
// without a key.
func TestDescriptionIsRenderedOnce(t *testing.T) {
	t.Parallel()
	made := 0
	h := new(
		Service,
	).openAPI("application/yaml", func() ([]byte, error) { made++; return []byte("x: 1"), nil })
	for range 3 {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "x: 1", w.Body.String())
	}
	require.Equal(t, 1, made)
}
