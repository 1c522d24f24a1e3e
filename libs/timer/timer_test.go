package timer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

func TestIDsAreUniqueOrderedAndSmall(t *testing.T) {
	t.Parallel()
	clocks := map[string]time.Time{
		"now":         time.Now(),
		"before 2025": time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		"at 2025":     time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
		"at 1970":     time.Unix(0, 0),
		"in 2090":     time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for name, start := range clocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := start
			ids := timer.NewIDs(func() time.Time { return now })
			var last timer.ID
			next := func() timer.ID {
				id := ids.Next()
				require.Greater(t, id, last, "each id is greater than those before it")
				require.LessOrEqual(t, id, timer.MaxID)
				last = id
				return id
			}
			for step := range 5 {
				first := next()
				for range 10_000 { // more than a millisecond has
					next()
				}
				require.LessOrEqual(
					t,
					last.TimeMS()-first.TimeMS(),
					int64(5),
					"at least half of each is used",
				)
				now = now.Add(time.Duration(step+1) * 10 * time.Millisecond)
			}
			now = now.Add(-time.Second)
			for range 5000 { // the clock went back
				next()
			}
		})
	}
}

func TestGeneratorsRarelyCollide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the clock of the bubble is fixed in the year 2000
		seen := map[timer.ID]bool{}
		meetings := 0
		for range 20 {
			id := timer.NewIDs(time.Now).Next()
			if seen[id] {
				meetings++
			}
			seen[id] = true
		}
		require.Less(t, meetings, 3)
	})
}

func TestIDsFromManyGoroutines(t *testing.T) {
	t.Parallel()
	ids := timer.NewIDs(time.Now)
	got := make([][]timer.ID, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			for range 2000 {
				got[i] = append(got[i], ids.Next())
			}
		})
	}
	wg.Wait()
	all := slices.Concat(got...)
	slices.Sort(all)
	require.Len(t, slices.Compact(all), 16_000)
}

func TestParseID(t *testing.T) {
	t.Parallel()
	for _, id := range []timer.ID{1, 42, timer.MaxID} {
		got, err := timer.ParseID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, got)
	}
	for _, s := range []string{"", "0", "-1", "+1", "x", "1.5", "9007199254740992", "99999999999999999999", " 1", "1e3", "0x1"} {
		_, err := timer.ParseID(s)
		require.Equal(t, timer.CodeInvalid, timer.CodeOf(err), "%q", s)
	}
}

func TestParseFireID(t *testing.T) {
	t.Parallel()
	for text, id := range map[string]timer.FireID{
		"1-0":                                  {Timer: 1},
		"42-1767225600000":                     {Timer: 42, DueMS: 1767225600000},
		"42-1767225600000-9223372036854775807": {Timer: 42, DueMS: 1767225600000, Series: math.MaxInt64},
	} {
		require.Equal(t, text, id.String())
		got, err := timer.ParseFireID(text)
		require.NoError(t, err)
		require.Equal(t, id, got)
	}
	for _, s := range []string{"", "1", "1-", "-1", "0-5", "1-5-0", "1-2-3-4", "1--2", "+1-2", "1-+2", "9007199254740992-1", "a-b"} {
		_, err := timer.ParseFireID(s)
		require.Equal(t, timer.CodeInvalid, timer.CodeOf(err), "%q", s)
	}
}

func FuzzParseFireID(f *testing.F) {
	f.Add("1-2")
	f.Add("1-2-3")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := timer.ParseFireID(s)
		if err != nil {
			return
		}
		again, err := timer.ParseFireID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, again)
	})
}

func TestFiresAreOrderedByPrimaryKey(t *testing.T) {
	t.Parallel()
	id := func(due int64, tm timer.ID, series int64) timer.Fire {
		return timer.Fire{FireID: timer.FireID{Timer: tm, DueMS: due, Series: series}}
	}
	want := []timer.Fire{
		id(1, 9, 0),
		id(2, 1, 5),
		id(2, 3, 0),
		id(2, 3, 1),
		id(2, 3, 7),
		id(math.MaxInt64, 1, 0),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, timer.CompareFires)
	require.Equal(t, want, got)
	require.Zero(t, timer.CompareFireIDs(want[0].FireID, want[0].FireID))
}

func TestMinutes(t *testing.T) {
	t.Parallel()
	f := timer.Fire{FireID: timer.FireID{DueMS: 5}, RunAtMS: 119_999}
	require.EqualValues(t, 1, f.RunAtMinute())
	require.EqualValues(t, 2, timer.MinuteOf(120_000))
}

func TestWaits(t *testing.T) {
	t.Parallel()
	second := timer.Duration(time.Second)
	tests := []struct {
		name    string
		r       timer.Retry
		attempt int
		want    time.Duration
	}{
		{"the default, first", timer.DefaultRetry(), 1, time.Second},
		{"the default, third", timer.DefaultRetry(), 3, 4 * time.Second},
		{"up to the longest", timer.DefaultRetry(), 60, time.Hour},
		{"infinitely far", timer.DefaultRetry(), math.MaxInt32, time.Hour},
		{
			"steady",
			timer.Retry{Wait: second, Factor: 1, MaxWait: timer.Duration(time.Minute)},
			1_000_000_000,
			time.Second,
		},
		{
			"the first is too long",
			timer.Retry{Wait: 5 * second, Factor: 2, MaxWait: second},
			1,
			time.Second,
		},
		{"none", timer.Retry{Factor: 2, MaxWait: second}, math.MaxInt32, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, tt.r.WaitAfter(tt.attempt))
		})
	}
}

func TestDurationsInJSON(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(
		timer.Schedule{Kind: timer.KindDelay, Delay: timer.Duration(90 * time.Second)},
	)
	require.NoError(t, err)
	require.JSONEq(t, `{"kind": "delay", "delay": "1m30s"}`, string(b))
	var s timer.Schedule
	require.NoError(t, json.Unmarshal([]byte(`{"kind": "delay", "delay": "90s"}`), &s))
	require.Equal(t, timer.Duration(90*time.Second), s.Delay)
	require.NoError(t, json.Unmarshal([]byte(`{"delay": null}`), &s))
	require.Equal(t, timer.Duration(90*time.Second), s.Delay)
	for _, bad := range []string{`{"delay": 5}`, `{"delay": "soon"}`, `{"delay": ""}`} {
		require.ErrorContains(t, json.Unmarshal([]byte(bad), &s), `"90s"`, bad)
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want time.Duration
	}{
		{"90s", 90 * time.Second},
		{"1h30m", 90 * time.Minute},
		{"1d", 24 * time.Hour},
		{"1d12h", 36 * time.Hour},
		{"+7d1m1.5s", 168*time.Hour + time.Minute + 1500*time.Millisecond},
		{"1.5d", 36 * time.Hour},
		{".25d", 6 * time.Hour},
		{"0d", 0},
		{"-1d12h", -36 * time.Hour},
		{"106751d23h", (106_751*24 + 23) * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			got, err := timer.ParseDuration(tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.want, time.Duration(got))
		})
	}
	for _, bad := range []string{
		"", "d", "1", "1d1", "1d-1h", "1d+1h", "--1d", "1h1d", "1dd", "1d1d", "1 d", "1D", "99999999999999999999d", "1e3d", "soon",
	} {
		_, err := timer.ParseDuration(bad)
		require.ErrorContains(
			t,
			err,
			`expected a duration such as "90s", "1h30m" or "1d12h", found`,
			bad,
		)
	}
	for _, long := range []string{"106752d", "106751d24h", "-106752d"} {
		_, err := timer.ParseDuration(long)
		require.ErrorContains(t, err, "expected a duration of at most 292 years", long)
	}
}

// FuzzParseDuration: what package time reads means the same, and nothing overflows.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1h30m", "1d12h", "-1.5d", "106751d24h", "9223372036854775807ns", "1d9223372036s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := timer.ParseDuration(text)
		if want, known := time.ParseDuration(text); known == nil {
			require.NoError(t, err)
			require.Equal(t, want, time.Duration(got))
		}
		if err == nil && text[0] != '-' {
			require.GreaterOrEqual(t, got, timer.Duration(0))
		}
	})
}

func TestCodes(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection refused")
	tests := []struct {
		err  error
		code timer.Code
		text string
	}{
		{
			timer.Invalid("schedule.at", "is required"),
			timer.CodeInvalid,
			"schedule.at: is required",
		},
		{timer.NotFound("timer", 5), timer.CodeNotFound, "no timer 5 in this app"},
		{timer.NoSuch("app", "shop"), timer.CodeNotFound, "no app shop"},
		{timer.Conflict("name", "is taken"), timer.CodeConflict, "name: is taken"},
		{
			timer.Unavailable("asking MySQL", cause),
			timer.CodeUnavailable,
			"asking MySQL: connection refused",
		},
		{
			fmt.Errorf("creating: %w", timer.Conflict("name", "is taken")),
			timer.CodeConflict,
			"creating: name: is taken",
		},
		{cause, timer.CodeInternal, "connection refused"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.code, timer.CodeOf(tt.err))
		require.Equal(t, tt.text, tt.err.Error())
	}
	require.ErrorIs(t, tests[4].err, cause)
	require.Empty(t, timer.CodeOf(nil))
}

func TestStates(t *testing.T) {
	t.Parallel()
	require.False(t, timer.State{}.Exists())
	require.True(t, timer.State{Status: timer.StatusDeleted}.Exists())
}

func BenchmarkFireID(b *testing.B) {
	id := timer.FireID{Timer: timer.MaxID, DueMS: 1_767_225_600_000}
	b.ReportAllocs()
	for b.Loop() {
		_ = id.String()
	}
}

func TestZonesOfTimers(t *testing.T) {
	t.Parallel()
	berlin := timer.Schedule{Kind: timer.KindCron, Zone: "Europe/Berlin"}
	every := timer.Schedule{Kind: timer.KindInterval, Zone: "Europe/Berlin"}
	for name, c := range map[string]struct {
		schedule  timer.Schedule
		calendars []timer.Calendar
		want      []string
	}{
		"cron":                         {berlin, nil, []string{"Europe/Berlin"}},
		"cron in UTC":                  {timer.Schedule{Kind: timer.KindCron}, nil, []string{""}},
		"cron under calendars":         {berlin, []timer.Calendar{{Zone: "Asia/Tokyo"}, {}}, []string{"Europe/Berlin", "Asia/Tokyo"}},
		"an interval goes by no zone":  {every, nil, nil},
		"an interval under calendars":  {every, []timer.Calendar{{}}, []string{"Europe/Berlin"}},
		"a one-shot goes by no zone":   {timer.Schedule{Kind: timer.KindAt, Zone: "Europe/Berlin"}, nil, nil},
		"a delay under calendars":      {timer.Schedule{Kind: timer.KindDelay}, []timer.Calendar{{Zone: "Asia/Tokyo"}}, []string{"", "Asia/Tokyo"}},
		"a fixed delay goes by no one": {timer.Schedule{Kind: timer.KindFixedDelay}, nil, nil},
	} {
		tm := timer.Timer{
			Definition: timer.Definition{Schedule: c.schedule},
			Calendars:  c.calendars,
		}
		require.Equal(t, c.want, tm.Zones(), name)
	}
}

// TestUnknownValues checks that a value of a newer release is not taken for a known one.
func TestUnknownValues(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{
		timer.Status("later").Known(),
		timer.Priority("later").Known(),
		timer.ScheduleKind("later").Known(),
		timer.GapPolicy("later").Known(),
		timer.OverlapPolicy("later").Known(),
		timer.ExcludedPolicy("later").Known(),
		timer.MisfirePolicy("later").Known(),
		timer.ConcurrencyPolicy("later").Known(),
	} {
		require.False(t, known)
	}
	require.Equal(t, "schedule", timer.CauseSchedule.String())
	require.Equal(t, "unknown cause 9", timer.Cause(9).String())

	// The fire of a timer with an unknown status is neither called nor skipped.
	s := timer.State{Status: "later", InactiveSinceMS: 5}
	reason, known := s.SkipReasonAt(7)
	require.Equal(t, timer.ReasonNone, reason)
	require.False(t, known)
	require.False(t, s.ActiveAt(7))
}

// TestMisfirePoliciesAreKnown checks that the API lists no policy that executors give back.
func TestMisfirePoliciesAreKnown(t *testing.T) {
	t.Parallel()
	for _, p := range timer.MisfirePolicies() {
		require.True(t, p.Policy.Known(), p.Policy)
		require.NotEmpty(t, p.Doc)
	}
}
