package api_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestMethodsThatAPathDoesNotHave checks that every path answers 405 with the methods that it has;
// v1 in its own form.
func TestMethodsThatAPathDoesNotHave(t *testing.T) {
	t.Parallel()
	f, _ := apitest.Guarded(t)
	var doc struct{ Paths map[string]map[string]any }
	f.Call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).Into(t, http.StatusOK, &doc)
	paths := map[string][]string{
		"/api/v2/openapi.json": {"GET"},
		"/api/v2/openapi.yaml": {"GET"},
		"/api/timer/v1/def": {
			"DELETE",
			"GET",
			"POST",
		},
		"/api/timer/v1/enable": {"POST"},
		"/api/timer/v1/unable": {"POST"},
	}
	for path, ops := range doc.Paths {
		for _, method := range slices.Sorted(maps.Keys(ops)) {
			paths[path] = append(paths[path], strings.ToUpper(method))
		}
	}
	for path, has := range paths {
		if strings.HasPrefix(path, "/api/v2/") && slices.Contains(has, http.MethodGet) {
			paths[path] = append(has, http.MethodHead)
			slices.Sort(paths[path])
		}
	}
	require.Greater(t, len(paths), 30)
	for path, has := range paths {
		at := strings.NewReplacer("{id}", "1", "{app}", "a%2Fb", "{name}", "ü%2F").Replace(path)
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "QUERY", "PROPFIND"} {
			if slices.Contains(has, method) {
				continue
			}
			a := f.Call(t, method, at, "", nil)
			require.Equal(t, http.StatusMethodNotAllowed, a.Status, method+path)
			require.Equal(t, strings.Join(has, ", "), a.Header.Get("Allow"), method+path)
			if strings.HasPrefix(path, "/api/timer/v1/") {
				var reply apitest.V1Reply
				a.Into(t, http.StatusMethodNotAllowed, &reply)
				require.Equal(t, http.StatusMethodNotAllowed, reply.Code)
			} else {
				require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
			}
		}
	}
	for _, method := range []string{"GET", "TRACE", "PROPFIND"} {
		require.Equal(t, http.StatusNotFound, f.Call(t, method, "/nowhere", "", nil).Status)
	}
}

// TestCommandLinesRecognizeMissingPaths checks the text by which they do, those of earlier releases
// too: it must not change.
func TestCommandLinesRecognizeMissingPaths(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for _, path := range []string{"/nowhere", "/api/v2/nowhere"} {
		var problem struct{ Detail string }
		f.Call(t, http.MethodGet, path, "", nil).Into(t, http.StatusNotFound, &problem)
		require.Equal(t, "no such path: "+path, problem.Detail)
	}
}

// TestHeadIsGetWithoutABody checks both for paths of all kinds, and that a stream ends at once.
func TestHeadIsGetWithoutABody(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	tm := f.Create(t, http.StatusCreated, apitest.V2Body)
	for _, path := range []string{
		apitest.TimerPath(tm.ID, ""), "/api/v2/timers?app=shop", "/api/v2/timers/1?app=shop",
		"/api/v2/apps/shop/events", "/api/v2/openapi.json", "/api/v2/timers?app=",
	} {
		head := f.Call(t, http.MethodHead, path, "", nil)
		if !strings.HasSuffix(path, "/events") {
			get := f.Call(t, http.MethodGet, path, "", nil)
			require.Equal(t, get.Status, head.Status, path)
			require.Equal(t, get.Header.Get("ETag"), head.Header.Get("ETag"))
			require.Equal(t, get.Header.Get("Content-Type"), head.Header.Get("Content-Type"))
			continue
		}
		require.Equal(t, http.StatusOK, head.Status)
		require.Equal(t, "text/event-stream", head.Header.Get("Content-Type"))
	}
}

// TestAnswersAboutBodiesAreDescribed checks that the description of every operation with a body has
// the errors about bodies.
func TestAnswersAboutBodiesAreDescribed(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody map[string]any
			Responses   map[string]any
		}
	}
	f.Call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).Into(t, http.StatusOK, &doc)
	bodies := 0
	for path, ops := range doc.Paths {
		for method, op := range ops {
			for _, status := range []string{"400", "408", "413", "415"} {
				require.Equal(
					t,
					op.RequestBody != nil,
					op.Responses[status] != nil,
					method+path+status,
				)
			}
			if op.RequestBody != nil {
				bodies++
			}
		}
	}
	require.GreaterOrEqual(t, bodies, 16)
	at := "/api/v2/timers"
	require.Equal(t, 400, f.Call(t, http.MethodPost, at, "", nil).Status)
	xml := f.Call(
		t, http.MethodPost, at, "<x/>", map[string]string{"Content-Type": "application/xml"})
	require.Equal(t, 415, xml.Status)
	require.Contains(
		t,
		xml.Body,
		"body: expected the header Content-Type: application/json, found application/xml",
	)
	patch := f.Call(
		t,
		http.MethodPost,
		at,
		apitest.V2Body,
		map[string]string{"Content-Type": "application/merge-patch+json; charset=utf-8"},
	)
	require.Equal(t, 415, patch.Status, patch.Body)
	require.Contains(t, patch.Body, "found another type that ends in +json")
	require.Equal(t, 413, f.Call(t, http.MethodPost, at, strings.Repeat(" ", 3<<20), nil).Status)
}
