package timer_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TestStoredTargetsOfEarlierReleases: rows of earlier releases keep their meaning, and plain
// targets are stored as before.
func TestStoredTargetsOfEarlierReleases(t *testing.T) {
	t.Parallel()
	const row = `{"kind":"http","url":"https://a.example/","method":"POST","headers":{"X-A":["1"]},"body":"{{fire.id}}"}`
	var target timer.Target
	require.NoError(t, json.Unmarshal([]byte(row), &target))
	require.Equal(t, timer.Target{
		Kind:    timer.KindHTTP,
		URL:     "https://a.example/",
		Method:  "POST",
		Headers: map[string][]string{"X-A": {"1"}},
		Body:    "{{fire.id}}",
	}, target)
	require.False(t, target.Templates)
	back, err := json.Marshal(target)
	require.NoError(t, err)
	require.JSONEq(t, row, string(back))

	const retryRow = `{"attempts":3,"wait":"1s","factor":2,"max_wait":"1h0m0s","timeout":"5s"}`
	var retry timer.Retry
	require.NoError(t, json.Unmarshal([]byte(retryRow), &retry))
	require.Equal(t, timer.DefaultRetry(), retry)
	back, err = json.Marshal(retry)
	require.NoError(t, err)
	require.JSONEq(t, retryRow, string(back))
}

func TestTargetsAreStoredWhole(t *testing.T) {
	t.Parallel()
	statuses, err := timer.ParseStatuses("200-299,404")
	require.NoError(t, err)
	want := struct {
		timer.Fanout
		Retry timer.Retry `json:"retry"`
	}{
		timer.Fanout{Mode: timer.ModeAll, Targets: []timer.Target{
			{
				Kind:   timer.KindHTTP,
				URL:    "https://a.example/",
				Method: "PUT",
				Name:   "a",
				Query:  map[string][]string{"a": {"b"}},
				SecretHeaders: map[string]timer.Sealed{
					"X-Key": "cs1.k.x",
				},
				Templates: true,
				Unsigned:  true,
				Async:     timer.Duration(time.Hour),
				Success: &timer.Success{
					Statuses: statuses,
					Body:     "ok",
				},
				Redirects: 3,
				HTTP2:     timer.HTTP2Always,
				TLS: &timer.TLS{
					ServerName: "b",
					CA:         "c",
					Insecure:   true,
					Cert:       "d",
					Key:        "e",
				},
				OAuth2: &timer.OAuth2{
					TokenURL:     "t",
					ClientID:     "i",
					Secret:       "s",
					Scopes:       []string{"x"},
					Params:       map[string]string{"y": "z"},
					SecretParams: map[string]timer.Sealed{"a": "b"},
					InBody:       true,
				},
			},
			{
				Kind:   timer.KindPulsar,
				Pulsar: &timer.PulsarTopic{Topic: "persistent://a/b/c", Key: "k"},
			},
		}},
		timer.Retry{
			Attempts:    5,
			Jitter:      0.5,
			GiveUpAfter: timer.Duration(time.Hour),
			NoRetry:     statuses,
		},
	}
	row, err := json.Marshal(want)
	require.NoError(t, err)
	require.Contains(t, string(row), `"statuses":"200-299,404"`)
	got := want
	got.Fanout, got.Retry = timer.Fanout{}, timer.Retry{}
	require.NoError(t, json.Unmarshal(row, &got))
	require.Equal(t, want, got)
	require.True(t, got.Several())
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	set, err := timer.ParseStatuses(" 200-299 , 404,999")
	require.NoError(t, err)
	require.Equal(t, "200-299,404,999", set.String())
	for status, want := range map[int32]bool{199: false, 200: true, 299: true, 300: false, 404: true, 405: false, 999: true, 0: false} {
		require.Equal(t, want, set.Contains(status), status)
	}
	empty, err := timer.ParseStatuses("  ")
	require.NoError(t, err)
	require.Nil(t, empty)
	require.False(t, empty.Contains(200))
	long := "200"
	for range 32 {
		long += ",200"
	}
	for _, bad := range []string{"a", "200-", "-200", "299-200", "99", "1000", "200,,300", "2e2", "200-300-400", "+200", long} {
		_, err := timer.ParseStatuses(bad)
		require.Error(t, err, bad)
	}
}

func FuzzStatuses(f *testing.F) {
	f.Add("200-299,404")
	f.Fuzz(func(t *testing.T, s string) {
		set, err := timer.ParseStatuses(s)
		if err != nil {
			return
		}
		again, err := timer.ParseStatuses(set.String())
		require.NoError(t, err)
		require.Equal(t, set, again)
	})
}

func TestNextAttempt(t *testing.T) {
	t.Parallel()
	second := timer.Duration(time.Second)
	noRetry, err := timer.ParseStatuses("400-428,430-499")
	require.NoError(t, err)
	r := timer.Retry{
		Attempts:    4,
		Wait:        second,
		Factor:      2,
		MaxWait:     10 * second,
		GiveUpAfter: 60 * second,
		NoRetry:     noRetry,
	}
	jittered := r
	jittered.Jitter = 0.5
	tests := []struct {
		name string
		r    timer.Retry
		f    timer.FailedAttempt
		wait time.Duration
		end  timer.Reason
	}{
		{"the first", r, timer.FailedAttempt{Attempt: 1, Status: 500}, time.Second, ""},
		{"the third", r, timer.FailedAttempt{Attempt: 3}, 4 * time.Second, ""},
		{"the last", r, timer.FailedAttempt{Attempt: 4}, 0, timer.ReasonExhausted},
		{
			"a policy without attempts has one",
			timer.Retry{},
			timer.FailedAttempt{Attempt: 1},
			0,
			timer.ReasonExhausted,
		},
		{
			"a status that is not retried",
			r,
			timer.FailedAttempt{Attempt: 1, Status: 404},
			0,
			timer.ReasonNotRetried,
		},
		{"one that is", r, timer.FailedAttempt{Attempt: 1, Status: 429}, time.Second, ""},
		{"no jitter", jittered, timer.FailedAttempt{Attempt: 1}, time.Second, ""},
		{
			"all jitter",
			jittered,
			timer.FailedAttempt{Attempt: 1, Random: 0.999999},
			500 * time.Millisecond,
			"",
		},
		{
			"half the jitter",
			jittered,
			timer.FailedAttempt{Attempt: 2, Random: 0.5},
			1500 * time.Millisecond,
			"",
		},
		{
			"the receiver asks for more",
			r,
			timer.FailedAttempt{Attempt: 1, RetryAfter: 20 * time.Second},
			20 * time.Second,
			"",
		},
		{
			"for less",
			r,
			timer.FailedAttempt{Attempt: 3, RetryAfter: time.Second},
			4 * time.Second,
			"",
		},
		{
			"for a month",
			timer.Retry{Attempts: 2},
			timer.FailedAttempt{Attempt: 1, RetryAfter: 720 * time.Hour},
			timer.MaxRetryAfter,
			"",
		},
		{
			"too late",
			r,
			timer.FailedAttempt{Attempt: 1, Since: 59500 * time.Millisecond},
			0,
			timer.ReasonGaveUp,
		},
		{
			"just in time",
			r,
			timer.FailedAttempt{Attempt: 1, Since: 59 * time.Second},
			time.Second,
			"",
		},
		{
			"asked for too late",
			r,
			timer.FailedAttempt{Attempt: 1, RetryAfter: time.Minute, Since: time.Second},
			0,
			timer.ReasonGaveUp,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wait, end := tt.r.Next(tt.f)
			require.Equal(t, tt.end, end)
			require.InDelta(t, tt.wait, wait, float64(10*time.Microsecond))
		})
	}
	require.Len(t, timer.Failures(), 16)
}
