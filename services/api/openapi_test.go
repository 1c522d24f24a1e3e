package api_test

import (
	"flag"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

var update = flag.Bool("update", false, "write openapi.yaml anew")

// TestOpenAPIIsCurrent checks that the committed description is the one the code serves, so that
// reviews show changes of the API.
func TestOpenAPIIsCurrent(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got := f.Call(t, http.MethodGet, "/api/v2/openapi.yaml", "", nil)
	require.Equal(t, http.StatusOK, got.Status)
	if *update {
		require.NoError(t, os.WriteFile("openapi.yaml", []byte(got.Body), 0o644))
	}
	want, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	require.Equal(t, string(want), got.Body, "run: go test ./services/api -run OpenAPI -update")
}

func TestOpenAPIAsJSON(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	var doc struct {
		OpenAPI string
		Paths   map[string]any
	}
	f.Call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).Into(t, http.StatusOK, &doc)
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.Len(t, slices.Collect(maps.Keys(doc.Paths)), 47)
}
