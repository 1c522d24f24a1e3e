package callback_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
)

// script is a caller whose results depend on the target's URL.
type script map[string]callback.Result

func (s script) Call(_ context.Context, r *callback.Request) callback.Result {
	return s[r.Target.URL]
}

func several(mode timer.Mode, urls ...string) *callback.Request {
	r := requestTo("")
	r.Target = timer.Target{}
	r.Mode = mode
	for _, u := range urls {
		r.Targets = append(r.Targets, timer.Target{Kind: timer.KindHTTP, URL: u})
	}
	return r
}

var (
	ok    = callback.Result{StatusCode: 200, Excerpt: "fine"}
	taken = callback.Result{
		Class:          callback.Accepted,
		StatusCode:     202,
		CompleteWithin: time.Minute,
	}
	busy = callback.Result{
		Class:      callback.Retry,
		StatusCode: 503,
		Error:      "busy",
		Failure:    timer.FailureStatus,
		RetryAfter: 9 * time.Second,
	}
	broken  = callback.Result{Class: callback.Retry, Error: "reset", Failure: timer.FailureReset}
	refused = callback.Result{
		Class:   callback.Reject,
		Error:   "refused",
		Failure: timer.FailureRefused,
	}
	gone = callback.Result{
		Class:      callback.Reject,
		StatusCode: 410,
		Error:      "gone",
		Failure:    timer.FailureStatus,
		Pause:      true,
	}
	answers = script{
		"ok":      ok,
		"taken":   taken,
		"busy":    busy,
		"broken":  broken,
		"refused": refused,
		"gone":    gone,
	}
)

func TestFailover(t *testing.T) {
	t.Parallel()
	c := callback.Callers{timer.KindHTTP: answers}
	tests := []struct {
		name  string
		urls  []string
		want  callback.Result // without its Targets
		calls int
	}{
		{"the first takes it", []string{"ok", "busy"}, ok, 1},
		{"the second", []string{"busy", "ok", "broken"}, ok, 2},
		{"the first can never be called", []string{"refused", "ok"}, ok, 2},
		{"accepted is taken", []string{"broken", "taken", "ok"}, taken, 2},
		{
			"none",
			[]string{"busy", "broken"},
			callback.Result{Class: callback.Retry, Error: "reset", Failure: timer.FailureReset},
			2,
		},
		{"none, and both ask for a later retry", []string{"busy", "busy"}, busy, 2},
		{
			"one may recover",
			[]string{"busy", "refused"},
			callback.Result{Class: callback.Retry, Error: "refused", Failure: timer.FailureRefused},
			2,
		},
		{"none ever", []string{"refused", "refused"}, refused, 2},
		{"one is gone", []string{"gone", "broken"}, broken, 2},
		{"all are gone", []string{"gone", "gone"}, gone, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := c.Call(t.Context(), several(timer.ModeAny, tt.urls...))
			require.Len(t, got.Targets, tt.calls)
			for i, one := range got.Targets {
				require.Equal(t, i, one.Index)
				require.Equal(t, answers[tt.urls[i]], one.Result)
			}
			if tt.want.Class == callback.Accepted {
				require.Equal(
					t, (timer.TargetAccepted|timer.TargetCompletes)<<(tt.calls-1), got.Done,
				)
				got.Done = 0
			}
			got.Targets = nil
			require.Equal(t, tt.want, got)
		})
	}
}

// TestTargetThatAcceptedIsTriedLast checks that a target which has accepted an attempt, and not
// completed it, leaves the next attempt to the others.
func TestTargetThatAcceptedIsTriedLast(t *testing.T) {
	t.Parallel()
	called := func(r *callback.Request) (callback.Result, []int) {
		got := callback.Callers{timer.KindHTTP: answers}.Call(t.Context(), r)
		var order []int
		for _, target := range got.Targets {
			order = append(order, target.Index)
		}
		return got, order
	}
	r := several(timer.ModeAny, "taken", "ok")
	got, order := called(r)
	require.Equal(t, callback.Accepted, got.Class)
	require.Equal(t, []int{0}, order)
	r.Done = got.Done
	got, order = called(r)
	require.Equal(t, callback.Success, got.Class)
	require.Equal(t, []int{1}, order)

	r = several(timer.ModeAny, "broken", "taken", "busy", "taken")
	for i, want := range [][]int{{0, 1}, {0, 2, 3}, {0, 2, 1}, {0, 2, 3}, {0, 2, 1}} {
		r.Attempt = int32(i + 1)
		got, order = called(r)
		require.Equal(t, callback.Accepted, got.Class)
		require.Equal(t, want, order)
		require.Equal(
			t, timer.TargetCompletes<<want[len(want)-1], got.Done&^got.Done.Next(),
			"only the last one completes it",
		)
		r.Done = got.Done
	}
}

// TestOnlyUnsignedTargetsAreCalledWithoutKeys checks that in an app whose keys cannot be read the
// targets that need no signature are called, and no others.
func TestOnlyUnsignedTargetsAreCalledWithoutKeys(t *testing.T) {
	t.Parallel()
	c := callback.Callers{timer.KindHTTP: answers}
	want := callback.Result{
		Class: callback.Retry, Failure: timer.FailureInvalid, Error: "not sent: no key",
	}
	r := requestTo("ok")
	r.Target.Kind, r.SignError = timer.KindHTTP, errors.New("no key")
	require.Equal(t, want, c.Call(t.Context(), r))
	r.Target.Unsigned = true
	require.Equal(t, ok, c.Call(t.Context(), r))
	for _, mode := range []timer.Mode{timer.ModeAny, timer.ModeAll} {
		r = several(mode, "ok", "ok")
		r.SignError, r.Targets[1].Unsigned = errors.New("no key"), true
		got := c.Call(t.Context(), r)
		require.Len(t, got.Targets, 2)
		require.Equal(t, want, got.Targets[0].Result)
		require.Equal(t, ok, got.Targets[1].Result)
	}
}

// upTo allows the given number of further targets.
type upTo struct{ further int }

func (*upTo) Allow(*timer.Target) (func(*callback.Result), bool) {
	return func(*callback.Result) {}, true
}

func (u *upTo) Continue() bool { u.further--; return u.further >= 0 }

// TestFailoverThatIsBrokenOff checks that the attempt is retried if a target was not called,
// whatever the targets before it answered.
func TestFailoverThatIsBrokenOff(t *testing.T) {
	t.Parallel()
	c := callback.Callers{timer.KindHTTP: answers}
	for _, first := range []string{"busy", "refused", "gone"} {
		for further := range 3 {
			r := several(timer.ModeAny, first, first, first)
			r.Guard = &upTo{further}
			got := c.Call(t.Context(), r)
			require.Len(t, got.Targets, 1+further)
			require.Equal(t, answers[first].Error, got.Error)
			if further < 2 {
				require.Equal(t, callback.Retry, got.Class, first)
				require.False(t, got.Pause)
			} else {
				require.Equal(t, answers[first].Class, got.Class)
			}
		}
	}
	r := several(timer.ModeAny, "ok", "busy")
	r.Guard = &upTo{}
	require.Equal(
		t,
		callback.Success,
		c.Call(t.Context(), r).Class,
		"nobody is asked after a success",
	)
}

func TestMulticast(t *testing.T) {
	t.Parallel()
	c := callback.Callers{timer.KindHTTP: answers}
	tests := []struct {
		name    string
		urls    []string
		done    timer.TargetBits
		class   callback.Class
		failure timer.Failure
		after   timer.TargetBits
		calls   int
	}{
		{"all", []string{"ok", "ok", "ok"}, 0, callback.Success, "", 7, 3},
		{
			"one is missing",
			[]string{"ok", "busy", "ok"},
			0,
			callback.Retry,
			timer.FailureStatus,
			5,
			3,
		},
		{
			"and only that is called again",
			[]string{"broken", "ok", "broken"},
			5,
			callback.Success,
			"",
			7,
			1,
		},
		{
			"one can never be called",
			[]string{"refused", "broken"},
			0,
			callback.Retry,
			timer.FailureRefused,
			0,
			2,
		},
		{
			"only that is left",
			[]string{"refused", "broken"},
			2,
			callback.Reject,
			timer.FailureRefused,
			2,
			1,
		},
		{"all were done", []string{"broken", "broken"}, 3, callback.Success, "", 3, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := several(timer.ModeAll, tt.urls...)
			r.Done = tt.done
			got := c.Call(t.Context(), r)
			require.Equal(t, tt.class, got.Class)
			require.Equal(t, tt.failure, got.Failure)
			require.Equal(t, tt.after, got.Done)
			require.Len(t, got.Targets, tt.calls)
			require.Equal(t, tt.failure == "", got.Error == "")
		})
	}
	got := c.Call(t.Context(), several(timer.ModeAll, "ok", "busy", "gone"))
	require.Equal(t, 9*time.Second, got.RetryAfter)
	require.Equal(
		t,
		callback.Retry,
		got.Class,
		"one may recover, and a pause would end its retries",
	)
	require.True(t, got.Pause, "for the last attempt")
	require.Equal(t, "target 2: busy", got.Error)
	r := several(timer.ModeAll, "ok", "ok", "gone")
	r.Done = 1 | timer.TargetGone<<2
	got = c.Call(t.Context(), r)
	require.Len(t, got.Targets, 1, "who is gone is not called again")
	require.True(t, got.Pause)
	require.Equal(t, callback.Reject, got.Class)
	require.Equal(t, 3|timer.TargetGone<<2, got.Done)
	require.Contains(t, got.Error, "target 3")
	got = c.Call(t.Context(), several(timer.ModeAll, "ok", "refused", "gone"))
	require.True(t, got.Pause)
	require.Equal(t, callback.Reject, got.Class)
}

// slow answers after a second.
type slow struct{}

func (slow) Call(context.Context, *callback.Request) callback.Result {
	time.Sleep(time.Second)
	return broken
}

func TestMulticastCallsAllAtOnceAndFailoverOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := callback.Callers{timer.KindHTTP: slow{}}
		r := several(timer.ModeAll, "a", "b", "c")
		r.Targets[1].Name = "second"
		r.Start = time.Now()
		began := time.Now()
		got := c.Call(t.Context(), r)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(
			t,
			[]string{"1", "second", "3"},
			[]string{got.Targets[0].Name, got.Targets[1].Name, got.Targets[2].Name},
		)

		r.Mode, r.Start = timer.ModeAny, time.Now()
		began = time.Now()
		got = c.Call(t.Context(), r)
		require.Equal(t, 3*time.Second, time.Since(began))
		for i, one := range got.Targets {
			require.Equal(t, began.Add(time.Duration(i)*time.Second), one.Start)
			require.Equal(t, time.Second, one.Duration)
		}
	})
}

// silent answers nothing within the time that it has.
type silent struct{}

func (silent) Call(_ context.Context, r *callback.Request) callback.Result {
	time.Sleep(r.Timeout)
	return callback.Result{
		Class:   callback.Retry,
		Failure: timer.FailureTimeout,
		Error:   "silent for " + r.Timeout.String(),
	}
}

// TestFailoverSharesTheTimeUntilADeadline checks that later targets get the time that those before
// left, and are not called without any.
func TestFailoverSharesTheTimeUntilADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := callback.Callers{timer.KindHTTP: silent{}}
		r := several(timer.ModeAny, "a", "b", "c", "d")
		r.Timeout, r.Deadline = 4*time.Second, time.Now().Add(9*time.Second)
		began := time.Now()
		got := c.Call(t.Context(), r)
		require.Equal(t, 9*time.Second, time.Since(began))
		for i, want := range []string{
			"silent for 4s",
			"silent for 4s",
			"silent for 1s, which is what the targets before left of the time",
			"not sent: the targets before used up the time",
		} {
			require.Equal(t, want, got.Targets[i].Error)
			require.Equal(t, timer.FailureTimeout, got.Targets[i].Failure)
		}

		r.Mode, r.Deadline = timer.ModeAll, time.Now()
		for _, one := range c.Call(t.Context(), r).Targets {
			require.Equal(t, "silent for 4s", one.Error, "they are called at once")
		}
	})
}

func TestAnUnknownKindIsRejected(t *testing.T) {
	t.Parallel()
	got := callback.Callers{}.Call(t.Context(), requestTo("http://a"))
	require.Equal(t, callback.Reject, got.Class)
	require.Equal(t, timer.FailureInvalid, got.Failure)
	require.Contains(t, got.Error, `"http"`)
}

func TestMulticastByHTTP(t *testing.T) {
	t.Parallel()
	var calls [2]atomic.Int32
	h := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	r := several(timer.ModeAll)
	for i := range calls {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls[i].Add(1) == 1 && i == 1 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		t.Cleanup(server.Close)
		r.Targets = append(r.Targets, timer.Target{Kind: timer.KindHTTP, URL: server.URL})
	}
	c := callback.Callers{timer.KindHTTP: h}
	first := c.Call(t.Context(), r)
	require.Equal(t, callback.Retry, first.Class)
	r.Done = first.Done
	require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	require.EqualValues(t, 1, calls[0].Load(), "who took it is not called again")
	require.EqualValues(t, 2, calls[1].Load())
}

// missing and denied are answers that these tests do not retry.
var (
	missing = callback.Result{
		Class:      callback.Retry,
		StatusCode: 404,
		Error:      "missing",
		Failure:    timer.FailureStatus,
	}
	denied = callback.Result{
		Class:      callback.Retry,
		StatusCode: 403,
		Error:      "denied",
		Failure:    timer.FailureStatus,
	}
)

// TestAStatusThatIsNotRetriedIsOfItsTargetOnly checks that such a status gives up only its own
// target, at any position.
func TestAStatusThatIsNotRetriedIsOfItsTargetOnly(t *testing.T) {
	t.Parallel()
	c := callback.Callers{
		timer.KindHTTP: script{
			"ok":      ok,
			"busy":    busy,
			"broken":  broken,
			"refused": refused,
			"gone":    gone,
			"missing": missing,
			"denied":  denied,
		},
	}
	const first, second = timer.TargetGivenUp, timer.TargetGivenUp << 1
	tests := []struct {
		name       string
		mode       timer.Mode
		urls       []string
		done       timer.TargetBits
		class      callback.Class
		notRetried bool
		after      timer.TargetBits
		calls      int
	}{
		{
			"any, in front",
			timer.ModeAny,
			[]string{"missing", "busy"},
			0,
			callback.Retry,
			false,
			first,
			2,
		},
		{
			"any, behind",
			timer.ModeAny,
			[]string{"busy", "missing"},
			0,
			callback.Retry,
			false,
			second,
			2,
		},
		{
			"any, given up before",
			timer.ModeAny,
			[]string{"ok", "busy"},
			first,
			callback.Retry,
			false,
			first,
			1,
		},
		{
			"any, and the other takes it",
			timer.ModeAny,
			[]string{"missing", "ok"},
			first,
			callback.Success,
			false,
			first,
			1,
		},
		{
			"any, all",
			timer.ModeAny,
			[]string{"missing", "denied"},
			0,
			callback.Retry,
			true,
			first | second,
			2,
		},
		{
			"any, the last that was left",
			timer.ModeAny,
			[]string{"missing", "denied"},
			first,
			callback.Retry,
			true,
			first | second,
			1,
		},
		{
			"any, and the other is refused",
			timer.ModeAny,
			[]string{"missing", "refused"},
			0,
			callback.Retry,
			true,
			first,
			2,
		},
		{
			"any, and the other is gone",
			timer.ModeAny,
			[]string{"missing", "gone"},
			first,
			callback.Retry,
			true,
			first,
			1,
		},
		{
			"all, in front",
			timer.ModeAll,
			[]string{"missing", "busy"},
			0,
			callback.Retry,
			false,
			first,
			2,
		},
		{
			"all, behind",
			timer.ModeAll,
			[]string{"busy", "missing"},
			0,
			callback.Retry,
			false,
			second,
			2,
		},
		{
			"all, given up before",
			timer.ModeAll,
			[]string{"ok", "busy"},
			first,
			callback.Retry,
			false,
			first,
			1,
		},
		{
			"all, and the other takes it at once",
			timer.ModeAll,
			[]string{"ok", "missing"},
			0,
			callback.Retry,
			true,
			1 | second,
			2,
		},
		{
			"all, and the other takes it later",
			timer.ModeAll,
			[]string{"missing", "ok"},
			first,
			callback.Retry,
			true,
			2 | first,
			1,
		},
		{
			"all, and the other is gone",
			timer.ModeAll,
			[]string{"missing", "gone"},
			0,
			callback.Retry,
			true,
			first | timer.TargetGone<<1,
			2,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := several(tt.mode, tt.urls...)
			r.Done, r.NoRetry = tt.done, timer.Statuses{{First: 403, Last: 404}}
			got := c.Call(t.Context(), r)
			require.Equal(t, tt.class, got.Class)
			require.Equal(t, tt.notRetried, got.NotRetried)
			require.Equal(t, tt.after, got.Done)
			require.Len(t, got.Targets, tt.calls)
			require.Equal(t, tt.class == callback.Success, got.Error == "")
			require.Equal(t, tt.class == callback.Success, got.Failure == "")
		})
	}
	r := several(timer.ModeAny, "busy", "missing")
	r.NoRetry = timer.Statuses{{First: 404, Last: 404}}
	require.Equal(
		t,
		9*time.Second,
		c.Call(t.Context(), r).RetryAfter,
		"who is not called again has no say in when",
	)
}
