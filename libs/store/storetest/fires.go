package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func loadSlice(t *testing.T, s *setup) {
	ctx := t.Context()
	base := (s.nowMS()/timer.MinuteMS + 5) * timer.MinuteMS
	var items []store.NewTimer
	for range 8 {
		n := s.newTimer()
		n.Activate = true
		items = append(items, n)
	}
	out, err := s.st().
		Create(ctx, items, planAt(2, base+3000, base+1000, base+2000, base+timer.MinuteMS))
	require.NoError(t, err)
	require.Len(t, out[0].Fires, 4)
	s.fires(2, base+1500) // bucket 0
	session := s.session()
	require.Len(t, s.claim(session, out[3].Fires[:1]), 1)

	var got []timer.Fire
	after := store.Position{}
	for {
		page, err := s.st().LoadSlice(ctx, timer.MinuteOf(base), 2, after, base+2000, 3)
		require.NoError(t, err)
		got = append(got, page...)
		if len(page) < 3 {
			break
		}
		last := page[len(page)-1]
		after = store.Position{RunAtMS: last.RunAtMS, FireID: last.FireID}
	}
	require.Len(t, got, 15, "two instants of eight timers, one of them claimed")
	for i := 1; i < len(got); i++ {
		require.Negative(t, comparePositions(got[i-1], got[i]))
	}
	rest, err := s.st().LoadSlice(ctx, timer.MinuteOf(base), 2, after, timer.NeverMS, 100)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(rest), 8)
}

func comparePositions(a, b timer.Fire) int {
	switch {
	case a.RunAtMS < b.RunAtMS:
		return -1
	case a.RunAtMS > b.RunAtMS:
		return 1
	}
	return timer.CompareFires(a, b)
}

func (s *setup) overdue(live timer.ID) []timer.Fire {
	s.t.Helper()
	found, err := s.st().
		Overdue(s.t.Context(), store.OverdueQuery{Live: []timer.ID{live}, Shards: 1, Limit: 100})
	require.NoError(s.t, err)
	return found
}

func overdue(t *testing.T, s *setup) {
	now := s.nowMS()
	live, dead := s.session(), s.session()
	ancient := s.fires(3, now-365*24*time.Hour.Milliseconds())
	hour := s.fires(1, now-time.Hour.Milliseconds())
	s.fires(1, now-store.OverdueAfter.Milliseconds()/2)
	s.fires(1, now+timer.MinuteMS)
	require.Len(t, s.claim(live, ancient[:1]), 1)
	require.Len(t, s.claim(dead, ancient[1:2]), 1)
	s.expireSession(dead)

	want := ids([]timer.Fire{ancient[1], ancient[2], hour[0]})
	found := s.overdue(live)
	require.Equal(t, want, ids(found), "in order of run")
	require.Equal(t, dead, found[0].Owner)
	require.Equal(t, want, ids(s.overdue(live)), "until somebody claims them")
	require.Len(t, s.claim(live, found[:1]), 1)
	require.Equal(t, want[1:], ids(s.overdue(live)))
}

func overdueWalksABacklog(t *testing.T, s *setup) {
	ctx := t.Context()
	now := s.nowMS()
	_, err := s.st().
		GrowMinutes(ctx, []slicing.Growth{{Minute: timer.MinuteOf(now - 10_000), Added: 1, Buckets: 4}})
	require.NoError(t, err)
	want, owner := map[timer.FireID]bool{}, s.session()
	for bucket := range int32(4) {
		for _, due := range []int64{now - 10_000, now - 10*timer.MinuteMS, now - 10*timer.MinuteMS + 5} {
			var items []store.NewTimer
			for range 30 {
				n := s.newTimer()
				n.Activate = true
				items = append(items, n)
			}
			out, err := s.st().Create(ctx, items, planAt(bucket, due))
			require.NoError(t, err)
			for _, c := range out {
				want[c.Fires[0].FireID] = true
			}
		}
	}
	for _, shard := range []int32{0, 1, 2} {
		for {
			found, err := s.st().
				Overdue(ctx, store.OverdueQuery{Live: []timer.ID{owner}, Shard: shard, Shards: 3, Limit: 20})
			require.NoError(t, err)
			if len(found) == 0 {
				break
			}
			require.LessOrEqual(t, len(found), 20)
			for _, f := range found {
				require.Equal(t, shard, f.Bucket%3)
				require.True(t, want[f.FireID])
				delete(want, f.FireID)
			}
			s.claim(owner, found)
		}
	}
	require.Empty(t, want)
}

func ownedAndOldest(t *testing.T, s *setup) {
	ctx := t.Context()
	oldest := func() int64 {
		t.Helper()
		at, err := s.st().OldestOpen(ctx)
		require.NoError(t, err)
		return at
	}
	require.Zero(t, oldest())
	now := s.nowMS()
	a, b := s.session(), s.session()
	later := s.fires(2, now+30*time.Second.Milliseconds())
	require.Zero(t, oldest())
	overdue := func(limit int) int {
		t.Helper()
		n, apps, err := s.st().OverdueByApp(ctx, limit, 9)
		require.NoError(t, err)
		if n > 0 {
			require.Equal(t, []store.AppCount{{App: "app", Count: n}}, apps)
		}
		return n
	}
	require.Zero(t, overdue(9))
	past := s.fires(2, now-time.Hour.Milliseconds())
	require.Equal(t, 2, overdue(9))
	require.Equal(t, 1, overdue(1))
	mid := s.fires(2, now-time.Second.Milliseconds())
	require.Equal(t, past[0].RunAtMS, oldest())
	s.claim(a, []timer.Fire{past[0], mid[0], later[0]})
	s.claim(b, []timer.Fire{mid[1]})
	owned := func(limit int, until int64, sessions ...timer.ID) []timer.FireID {
		t.Helper()
		got, err := s.st().Owned(ctx, sessions, 0, until, limit)
		require.NoError(t, err)
		return ids(got)
	}
	for fromMS, want := range map[int64][]timer.Fire{
		past[0].RunAtMS + 1:  {mid[0], later[0]},
		mid[0].RunAtMS:       {mid[0], later[0]},
		mid[0].RunAtMS + 1:   {later[0]},
		later[0].RunAtMS:     {later[0]},
		later[0].RunAtMS + 1: {},
	} {
		got, err := s.st().Owned(ctx, []timer.ID{a}, fromMS, timer.NeverMS, 9)
		require.NoError(t, err)
		require.Equal(t, ids(want), ids(got), fromMS)
	}
	require.Equal(t, ids([]timer.Fire{past[0], mid[0]}), owned(9, now, a))
	require.Equal(t, ids([]timer.Fire{past[0]}), owned(1, now, a))
	require.Equal(t, ids([]timer.Fire{past[0], mid[0], later[0]}), owned(9, timer.NeverMS, a))
	require.Len(t, owned(9, now, a, b), 3)
	require.Empty(t, owned(9, now))
	require.Empty(t, owned(9, now, 12345))
}

// oldestOfAPurgedMinute checks that an open fire is the oldest one, whatever its bucket, once the
// buckets of its minute are purged.
func oldestOfAPurgedMinute(t *testing.T, s *setup) {
	ctx := t.Context()
	due := s.nowMS() - 30*time.Hour.Milliseconds()
	counts := []slicing.Growth{{Minute: timer.MinuteOf(due), Added: 1, Buckets: 8}}
	_, err := s.st().GrowMinutes(ctx, counts)
	require.NoError(t, err)
	n := s.newTimer()
	n.Activate = true
	s.create(n, planAt(5, due))
	s.fires(1, s.nowMS()-time.Hour.Milliseconds())
	_, err = s.st().Cursor(ctx, timer.MinuteOf(s.nowMS()))
	require.NoError(t, err)
	require.NoError(t, s.st().PurgeExpired(ctx, 24*time.Hour))
	at, err := s.st().OldestOpen(ctx)
	require.NoError(t, err)
	require.Equal(t, due, at)
}

// overdueByApp counts the fires of three apps, of which the earliest count first.
func overdueByApp(t *testing.T, s *setup) {
	ctx := t.Context()
	now := s.nowMS()
	add := func(app string, n int, minutesAgo int64) []timer.Fire {
		t.Helper()
		var dues []int64
		for i := range n {
			dues = append(dues, now-minutesAgo*timer.MinuteMS-int64(i))
		}
		item := s.newTimer()
		item.App, item.Activate = app, true
		return s.create(item, planAt(0, dues...)).Fires
	}
	claimed := add("many", 4, 10)
	add("few", 1, 60)
	add("some", 2, 5)
	add("future", 3, -2)
	add("more", 2, 5)
	s.claim(s.session(), claimed[:2])
	for _, c := range []struct {
		limit, top, n int
		apps          string
	}{
		{100, 9, 9, "[{many 4} {some 2} {more 2} {few 1}]"},
		{100, 2, 9, "[{many 4} {some 2}]"},
		{100, 0, 9, "[]"},
		{4, 9, 4, "[{many 3} {few 1}]"},
		{1, 9, 1, "[{few 1}]"},
	} {
		n, apps, err := s.st().OverdueByApp(ctx, c.limit, c.top)
		require.NoError(t, err)
		require.Equal(t, c.n, n)
		require.Equal(t, c.apps, fmt.Sprint(apps))
	}
}
