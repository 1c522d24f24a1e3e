package api_test

import (
	"flag"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/explain"
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

// TestCodesOfExplanationsAreDescribed checks that the description has each code of an explanation.
func TestCodesOfExplanationsAreDescribed(t *testing.T) {
	t.Parallel()
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	apitest.Setup(t).
		Call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).
		Into(t, http.StatusOK, &doc)
	want := map[string][]string{}
	for _, m := range explain.Meanings() {
		want["AnswerBody"] = append(want["AnswerBody"], string(m.Code))
	}
	for _, m := range explain.HopMeanings() {
		want["HopBody"] = append(want["HopBody"], string(m.Code))
	}
	for _, m := range explain.HoldMeanings() {
		want["HoldBody"] = append(want["HoldBody"], string(m.Code))
	}
	for schema, codes := range want {
		require.ElementsMatch(
			t, codes, doc.Components.Schemas[schema].Properties["code"].Enum, schema,
		)
	}
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
