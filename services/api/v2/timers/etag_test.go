package timers_test

import (
	"fmt"
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
		{http.MethodDelete, path, "", `"1", "3"`},
		{http.MethodDelete, "/api/v2/timers?app=shop&name=tick", "", `"1"`},
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
	a = f.Call(t, http.MethodPatch, path, `{"priority":"low"}`, match(`"1", "4"`))
	require.Equal(t, http.StatusOK, a.Status, "a list")
	require.Equal(t, `"5"`, a.Header.Get("ETag"))
	a = f.Call(t, http.MethodPut, "/api/v2/timers", named("tick", 40), match(` "9" ,"x",, "5",`))
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	a = f.Call(t, http.MethodDelete, path, "", match(`"5","6"`))
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

// TestIfIDEditsNoOtherTimer replaces definitions while the name belongs to one timer after another, all
// of which have version 1.
func TestIfIDEditsNoOtherTimer(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	first := f.Create(t, http.StatusCreated, named("tick", 10))
	put := func(id, more string, every int, header map[string]string) apitest.Answer {
		return f.Call(
			t, http.MethodPut, "/api/v2/timers?if_id="+id+more, named("tick", every), header)
	}
	a := put(first.ID, "&dry_run=true", 20, match(`"1"`))
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	a = put(first.ID, "", 20, match(`"1"`))
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	a = put(first.ID, "", 30, match(`"1"`))
	require.Equal(t, http.StatusPreconditionFailed, a.Status)
	require.Contains(t, a.Body, "If-Match")
	a = put(first.ID, "", 30, nil)
	require.Equal(t, http.StatusOK, a.Status, "of any version")

	f.Call(t, http.MethodDelete, apitest.TimerPath(first.ID, ""), "", nil)
	a = put(first.ID, "", 40, nil)
	require.Equal(t, http.StatusPreconditionFailed, a.Status, "it does not create one")
	require.Contains(t, a.Body, "if_id: there is no timer of this name")
	second := f.Create(t, http.StatusCreated, named("tick", 50))
	for _, more := range []string{"", "&dry_run=true"} {
		for _, header := range []map[string]string{nil, match(`"1"`), match("*")} {
			a = put(first.ID, more, 60, header)
			require.Equal(t, http.StatusPreconditionFailed, a.Status, a.Body)
			require.Contains(t, a.Body, "which is "+second.ID)
		}
	}
	for _, none := range []string{"0", "9999999999999999"} {
		require.Equal(
			t,
			http.StatusPreconditionFailed,
			put(none, "", 60, nil).Status,
			"no timer's id",
		)
	}
	now := f.Do(t, http.StatusOK, http.MethodGet, apitest.TimerPath(second.ID, ""), "")
	require.Equal(t, 1, now.Version)
}

func TestIfMatchSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	tm := f.Create(t, http.StatusCreated, named("tick", 10))
	path := "/api/v2/timers/" + tm.ID + "?app=shop"
	for _, tag := range []string{`1`, `"1`, `1"`, `"1" "2"`, `"1", 2`, `*, "1"`, `w/"1"`} {
		a := f.Call(t, http.MethodPatch, path, `{"priority":"high"}`, match(tag))
		var p apitest.V2Problem
		a.Into(t, http.StatusUnprocessableEntity, &p)
		require.Equal(t, "header.If-Match", p.Errors[0].Location, tag)
		require.Contains(t, a.Body, "quote each", tag)
	}
	a := f.Call(t, http.MethodPatch, path, `{"priority":"high"}`, match(`W/"1"`))
	require.Equal(t, http.StatusPreconditionFailed, a.Status)
	require.Contains(t, a.Body, "leave W/ out")
	a = f.Call(t, http.MethodPatch, path, `{"priority":"high","if_version":2}`, match(`"1"`))
	require.Equal(t, http.StatusUnprocessableEntity, a.Status, a.Body)
	require.Contains(t, a.Body, "body.if_version")
	a = f.Call(t, http.MethodPatch, path, `{"priority":"high","if_version":1}`, match(`"1","2"`))
	require.Equal(t, http.StatusOK, a.Status, a.Body)
}

// TestRescheduleTakesIfMatch moves a one-shot by its ETag, and by the same ETag at once.
func TestRescheduleTakesIfMatch(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	tm := f.Create(t, http.StatusCreated,
		apitest.With(`{"kind":"at","at":"2180-01-01T00:00:00Z"}`, `"status":"active"`))
	path := apitest.TimerPath(tm.ID, "/reschedule")
	a := f.Call(t, http.MethodPost, path, `{"at":"2181-01-01T00:00:00Z"}`, match(`"1"`))
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	for _, late := range []string{path, path + "&dry_run=true"} {
		a = f.Call(t, http.MethodPost, late, `{"at":"2182-01-01T00:00:00Z"}`, match(`"1"`))
		require.Equal(t, http.StatusPreconditionFailed, a.Status, a.Body)
		require.Contains(t, a.Body, "which is 2", "the present version")
	}
	var moved, refused atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"at":"2183-01-0%dT00:00:00Z"}`, i+1)
			switch a := f.Call(t, http.MethodPost, path, body, match(`"2"`)); a.Status {
			case http.StatusOK:
				moved.Add(1)
			case http.StatusPreconditionFailed:
				refused.Add(1)
			default:
				t.Errorf("answered %d: %s", a.Status, a.Body)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int32(1), moved.Load())
	require.Equal(t, int32(7), refused.Load())
}
