package timers_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func match(tag string) map[string]string { return map[string]string{"If-Match": tag} }

func TestETagIsTheVersion(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	tm := f.Create(t, http.StatusCreated, named("tick", 10))
	path := "/api/v2/timers/" + tm.ID + "?app=shop"
	a := f.Call(t, http.MethodGet, path, "", nil)
	require.Equal(t, `"1"`, a.Header.Get("ETag"))

	a = f.Call(t, http.MethodPatch, path, `{"priority":"high"}`, match(`"1"`))
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	require.Equal(t, `"2"`, a.Header.Get("ETag"))
	for _, c := range []struct{ method, path, body, tag string }{
		{http.MethodPatch, path, `{"priority":"low"}`, `"1"`},
		{http.MethodPatch, path, `{"status":"inactive"}`, `"1"`},
		{http.MethodPatch, path, `{"priority":"low"}`, `W/"2"`},
		{http.MethodPatch, path + "&dry_run=true", `{"priority":"low"}`, `"1"`},
		{http.MethodPut, "/api/v2/timers", named("tick", 20), `"1"`},
		{http.MethodPut, "/api/v2/timers?dry_run=true", named("tick", 20), `"1"`},
		{http.MethodPut, "/api/v2/timers", named("none", 20), `*`},
		{http.MethodPut, "/api/v2/timers?dry_run=true", named("none", 20), `"1"`},
		{http.MethodDelete, path, "", `"1"`},
	} {
		a = f.Call(t, c.method, c.path, c.body, match(c.tag))
		require.Equal(
			t,
			http.StatusPreconditionFailed,
			a.Status,
			"%s %s: %s",
			c.method,
			c.tag,
			a.Body,
		)
		require.Contains(t, a.Body, "If-Match")
	}
	require.Contains(t, a.Body, "which is 2", "the present version")
	a = f.Call(t, http.MethodPut, "/api/v2/timers", named("tick", 20), match(`"2"`))
	require.Equal(t, http.StatusOK, a.Status)
	require.Equal(t, `"3"`, a.Header.Get("ETag"))
	a = f.Call(t, http.MethodPut, "/api/v2/timers", named("tick", 30), match("*"))
	require.Equal(t, http.StatusOK, a.Status)
	a = f.Call(t, http.MethodDelete, path, "", match(`"4"`))
	require.Equal(t, http.StatusNoContent, a.Status, a.Body)
}

func TestIfNoneMatchCreatesOnly(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	only := map[string]string{"If-None-Match": "*"}
	var created, refused atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch f.Call(t, http.MethodPut, "/api/v2/timers", named("tick", 10), only).Status {
			case http.StatusCreated:
				created.Add(1)
			case http.StatusPreconditionFailed:
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int32(1), created.Load(), "of many at once")
	require.Equal(t, int32(7), refused.Load())
	a := f.Call(t, http.MethodPut, "/api/v2/timers?dry_run=true", named("tick", 20), only)
	require.Equal(t, http.StatusPreconditionFailed, a.Status)
	require.Contains(t, a.Body, "If-None-Match")
}
