package sqlstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// wantPlans has the plan of each statement that contains part, with "?" for a number after "=".
// Alternatives follow bars: for a
// single row that does not exist, or for MySQL if MariaDB words it differently. The first matching
// part counts.
var wantPlans = []struct{ part, mysql, sqlite string }{
	{
		"DELETE timer_attributes FROM",
		"timer_attributes range PRIMARY|Impossible WHERE noticed after reading const tables",
		"",
	},
	{
		"SUM(LENGTH(definition))",
		"timer_versions range PRIMARY|timer_versions ref PRIMARY",
		"SEARCH timer_versions USING INDEX sqlite_autoindex_timer_versions_1 (timer_id=?)",
	},
	{
		"(app_id,kind,name,value,timer_id) IN",
		"",
		"timer_attributes_by_timer (timer_id=? AND kind=? AND name=? AND app_id=? AND value=?)",
	},
	{
		"SELECT t.id,t.name FROM timer_calendars u",
		"u ref PRIMARY",
		"SEARCH u USING PRIMARY KEY (app_id=? AND name=?)\nSEARCH t USING PRIMARY KEY (id=?)",
	},
	{
		"FROM timer_changes c",
		"c range PRIMARY Using where\nt eq_ref PRIMARY \na eq_ref PRIMARY Using where\nf eq_ref PRIMARY",
		"SEARCH c USING INTEGER PRIMARY KEY (rowid>?)\nSEARCH t USING PRIMARY KEY (id=?)",
	},
	{
		"ORDER BY t.id LIMIT 50",
		"t range PRIMARY Using where\na eq_ref PRIMARY",
		"SEARCH t USING PRIMARY KEY (id>?)\nSEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
	},
	{
		"ON a.id=t.app_id WHERE t.id",
		"t range PRIMARY Using where\na eq_ref PRIMARY|t const PRIMARY",
		"SEARCH t USING PRIMARY KEY (id=?)\nSEARCH a USING INTEGER PRIMARY KEY (rowid=?)",
	},
	// Searches. A statement of a source has no filesort, a row is read by its key, and an attribute
	// by all columns of its key.
	{
		"AS due_ms FROM timers t",
		"o ref by_timer Using where",
		"SEARCH o USING INDEX outcomes_by_timer (timer_id=?)",
	},
	{
		"(SELECT 1 FROM timer_attributes a",
		"t range PRIMARY Using where\na ref by_timer Using where; Using index|t const PRIMARY|Impossible WHERE noticed after reading const tables",
		"SEARCH a USING COVERING INDEX timer_attributes_by_timer (timer_id=? AND kind=? AND name=?)",
	},
	{
		"AND status+0",
		"t range PRIMARY|t const PRIMARY|Impossible WHERE noticed after reading const tables",
		"SEARCH t USING PRIMARY KEY (id=?)",
	},
	{
		") a ORDER BY id",
		"timer_attributes ref PRIMARY Using where; Using index\n|timer_attributes range PRIMARY Using where; Using index\n",
		"SEARCH timer_attributes USING PRIMARY KEY (app_id=? AND kind=? AND name=? AND value=?",
	},
	{
		"COUNT(*) FROM (SELECT 1 FROM timer_attributes",
		"timer_attributes ref PRIMARY",
		"SEARCH timer_attributes USING PRIMARY KEY (app_id=? AND kind=? AND name=?",
	},
	{
		"COUNT(*) FROM (SELECT 1 FROM timers",
		"timers range by_live_name|no matching row in const table",
		"SEARCH timers USING COVERING INDEX timers_by_live_name (app_id=? AND live_name>?",
	},
	{
		"ORDER BY value,timer_id",
		"timer_attributes ref PRIMARY Using where; Using index|timer_attributes range PRIMARY Using where; Using index",
		"SEARCH timer_attributes USING PRIMARY KEY (app_id=? AND kind=? AND name=?",
	},
	{
		"FROM timer_attributes WHERE",
		"timer_attributes range PRIMARY Using where; Using index|timer_attributes ref PRIMARY Using where; Using index",
		"SEARCH timer_attributes USING PRIMARY KEY (app_id=? AND kind=? AND name=? AND value=?",
	},
	{
		"live_name AS name FROM timers",
		"timers range by_live_name Using where; Using index|Impossible WHERE noticed after reading const tables",
		"SEARCH timers USING COVERING INDEX timers_by_live_name (app_id=? AND live_name",
	},
	{
		"last_due_ms AS ms",
		"timers range by_last_due Using where; Using index|Impossible WHERE noticed after reading const tables",
		"SEARCH timers USING COVERING INDEX timers_by_last_due (app_id=? AND status=? AND (last_due_ms,id)>(?,?) AND last_due_ms<?)",
	},
	{
		"last_due_ms AS at_ms",
		"timers range by_last_due Using where; Using index|Impossible WHERE noticed after reading const tables",
		"SEARCH timers USING COVERING INDEX timers_by_last_due (app_id=? AND status=? AND last_due_ms",
	},
	{
		"next_due_ms AS at_ms",
		"timers range by_next_due Using where; Using index|Impossible WHERE noticed after reading const tables",
		"SEARCH timers USING COVERING INDEX timers_by_next_due (app_id=? AND status=? AND next_due_ms",
	},
	{
		"FROM timers FORCE INDEX (by_app)",
		"timers range by_app Using where; Using index|timers ref by_app Using index|timers range by_app Using index condition; Using where|timers ref by_app Using where",
		"",
	},
	{
		"ORDER BY finished_ms DESC",
		"failed_outcomes ref PRIMARY Using where; Using index|failed_outcomes ref PRIMARY Using index",
		"SEARCH failed_outcomes USING PRIMARY KEY (app_id=?)",
	},
	{
		"FROM outcomes k",
		"k range by_app Using where",
		"INDEX outcomes_by_app (app_id=? AND ",
	},
	{
		"FROM failed_outcomes k",
		"k range PRIMARY Using where; Using index",
		"SEARCH k USING PRIMARY KEY (app_id=? AND ",
	},
	{
		"SET redrive_series",
		"outcomes range PRIMARY",
		"SEARCH outcomes USING PRIMARY KEY (finished_ms=? AND timer_id=? AND due_ms=? AND series=?)",
	},
	{
		"UPDATE fires",
		"fires range PRIMARY|no matching row in const table|Impossible WHERE noticed after reading const tables",
		"SEARCH fires USING PRIMARY KEY (due_ms=? AND timer_id=? AND series=?)",
	},
	{
		"(due_ms=",
		"fires const PRIMARY|Impossible WHERE noticed after reading const tables|no matching row in const table",
		"SEARCH fires USING PRIMARY KEY (due_ms=? AND timer_id=? AND series=?)",
	},
	{
		"(finished_ms=",
		"outcomes const PRIMARY",
		"SEARCH outcomes USING PRIMARY KEY (finished_ms=? AND timer_id=? AND due_ms=? AND series=?)",
	},
	{
		"(finished_ms,timer_id,due_ms,series) IN (",
		"outcomes range PRIMARY",
		"SEARCH outcomes USING PRIMARY KEY (finished_ms=? AND timer_id=? AND due_ms=? AND series=?)",
	},
	{
		"AND owner=? ORDER BY finished_ms",
		"outcomes range PRIMARY",
		"SEARCH outcomes USING PRIMARY KEY (finished_ms>? AND finished_ms<?)",
	},
	{
		"FROM failed_outcomes",
		"PRIMARY Using where; Using index\no eq_ref PRIMARY|PRIMARY Using where; Using index\nt eq_ref PRIMARY",
		"SEARCH f USING PRIMARY KEY (app_id=? AND finished_ms>?)",
	},
	{
		"(o.timer_id,o.due_ms,o.series) IN (",
		"o range by_timer|o ref by_timer",
		"SEARCH o USING INDEX outcomes_by_timer (timer_id=? AND due_ms=? AND series=?)",
	},
	{
		"(due_ms,timer_id,series) IN (",
		"fires range PRIMARY",
		"SEARCH fires USING PRIMARY KEY (due_ms=? AND timer_id=? AND series=?)",
	},
	{
		"(timer_id,due_ms) IN (",
		"outcomes range by_timer|outcomes ref by_timer",
		"INDEX outcomes_by_timer (timer_id=? AND due_ms=?)",
	},
	{"slot_queue WHERE", "slot_queue", "SEARCH slot_queue USING PRIMARY KEY (timer_id=?"},
	{"FROM slot_queue FORCE", "slot_queue range PRIMARY|slot_queue ref PRIMARY", ""},
	{
		"(app_id,name,timer_id) IN",
		"timer_calendars",
		"SEARCH timer_calendars USING PRIMARY KEY (app_id=? AND name=? AND timer_id=?)",
	},
	{
		" AND name=? AND timer_id>",
		"timer_calendars range PRIMARY Using where; Using index",
		"SEARCH timer_calendars USING PRIMARY KEY (app_id=? AND name=? AND timer_id>?)",
	},
	{
		"FROM timer_calendars",
		"timer_calendars ref PRIMARY",
		"SEARCH timer_calendars USING PRIMARY KEY (app_id=? AND name=?)",
	},
	{
		"DISTINCT timer_id FROM backfills",
		"backfills ref by_expand",
		"SEARCH backfills USING INDEX backfills_by_expand (status=?)",
	},
	{"FROM backfills FORCE", "backfills range by_expand", ""},
	{
		"FROM backfills WHERE status",
		"",
		"SEARCH backfills USING INDEX backfills_by_expand (status=? AND expand_at_ms<?)",
	},
	{
		"due_ms=? AND timer_id=? ORDER BY due_ms,timer_id,series LIMIT",
		"fires ref PRIMARY|fires range PRIMARY",
		"SEARCH fires USING PRIMARY KEY (due_ms=? AND timer_id=?)",
	},
	{
		"ORDER BY due_ms,timer_id,series LIMIT 1 OFFSET",
		"fires range PRIMARY",
		"SEARCH fires USING PRIMARY KEY (",
	},
	{
		"ORDER BY due_ms,timer_id,series LIMIT",
		"fires range PRIMARY|fires ref PRIMARY",
		"SEARCH fires USING PRIMARY KEY (",
	},
	{"FROM timers FORCE INDEX (PRIMARY) WHERE id>", "timers range PRIMARY", ""},
	{"FROM timers WHERE id>", "", "SEARCH timers USING PRIMARY KEY (id>?)"},
	{
		"series=? AND timer_id IN",
		"fires range PRIMARY",
		"SEARCH fires USING PRIMARY KEY (due_ms>? AND due_ms<?)",
	},
	{"UPDATE timers", "timers range PRIMARY", "SEARCH timers USING PRIMARY KEY (id=?)"},
	{
		"MIN(run_at_minute)",
		"Select tables optimized away",
		"SEARCH fires USING COVERING INDEX fires_by_run",
	},
	{
		"MAX(bucket)",
		"Select tables optimized away|No matching min/max row",
		"SEARCH fires USING COVERING INDEX fires_by_run (run_at_minute=?)",
	},
	{
		"MIN(run_at_ms)",
		"",
		"SEARCH fires USING COVERING INDEX fires_by_run (run_at_minute=? AND bucket=?)",
	},
	{
		"FROM (SELECT app_id FROM fires",
		"fires range by_run Using index condition",
		"SEARCH fires USING INDEX fires_by_run (run_at_minute<?)",
	},
	{
		"SELECT run_at_minute,bucket,run_at_ms,due_ms,timer_id,series FROM fires",
		"fires range by_run Using where; Using index",
		"SEARCH fires USING COVERING INDEX fires_by_run (",
	},
	{"FROM fires FORCE INDEX (by_run)", "fires range by_run", ""},
	{"FROM fires INDEXED BY fires_by_run", "", "SEARCH fires USING INDEX fires_by_run ("},
	{"expand_at_ms<=", "timers range by_expand", "SEARCH timers USING "},
	{
		"AND series=? ORDER BY due_ms DESC",
		"outcomes range by_timer Using where; Using index",
		"SEARCH outcomes USING COVERING INDEX outcomes_by_timer (timer_id=? AND due_ms<?)",
	},
	{"FROM outcomes", "by_timer", "SEARCH outcomes USING INDEX outcomes_by_timer (timer_id=?"},
	{
		"WHERE error<>''",
		"attempts range by_timer|attempts ref by_timer",
		"SEARCH attempts USING INDEX attempts_by_timer (timer_id=? AND due_ms=? AND series=? AND finished_ms>?)",
	},
	{
		"AND target<>''",
		"attempts range by_timer|attempts ref by_timer",
		"SEARCH attempts USING INDEX attempts_by_timer (timer_id=? AND due_ms=? AND series=? AND finished_ms>?)",
	},
	{
		"FROM attempts",
		"attempts ref by_timer",
		"SEARCH attempts USING INDEX attempts_by_timer (timer_id=? AND due_ms=?",
	},
	{"FROM jobs FORCE INDEX (by_lease)", "jobs range by_lease|jobs ref by_lease", ""},
	{"FROM jobs WHERE status=", "", "INDEX jobs_by_lease (status=?"},
	{
		"COUNT(*) FROM jobs",
		"jobs ref by_app_status",
		"SEARCH jobs USING COVERING INDEX jobs_by_app_status (app_id=? AND status=?)",
	},
	{
		" AND status=? ORDER BY id",
		"jobs ref by_app_status|jobs range by_app_status",
		"SEARCH jobs USING INDEX jobs_by_app_status (app_id=? AND status=?)",
	},
	{
		"FROM jobs WHERE app_id=",
		"",
		"SEARCH jobs USING INDEX jobs_by_app (app_id=? AND id<?)",
	},
	{"FROM jobs FORCE INDEX (by_app)", "jobs range by_app", ""},
	{
		"FROM jobs WHERE id=",
		"jobs const PRIMARY",
		"SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)",
	},
	{
		"UPDATE jobs FORCE INDEX (by_app_status)",
		"jobs range by_app_status|jobs ref by_app_status",
		"",
	},
	{
		"updated_ms=? WHERE app_id=? AND status=?",
		"",
		"SEARCH jobs USING INDEX jobs_by_app_status (app_id=? AND status=?)",
	},
	{"UPDATE jobs", "jobs range PRIMARY", "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"},
	{
		"FROM audit_log FORCE INDEX (by_resource)",
		"audit_log range by_resource|audit_log ref by_resource",
		"",
	},
	{"FROM audit_log FORCE INDEX (by_app)", "audit_log range by_app|audit_log ref by_app", ""},
	{
		"SELECT seq,changed_ms FROM audit_log",
		"audit_log range PRIMARY",
		"SEARCH audit_log USING INTEGER PRIMARY KEY (rowid>?)",
	},
	{"FROM audit_log FORCE INDEX (PRIMARY) WHERE seq", "audit_log range PRIMARY", ""},
	{
		"FROM audit_log WHERE seq>",
		"",
		"SEARCH audit_log USING INTEGER PRIMARY KEY (rowid>?)",
	},
	{
		"AND resource=",
		"",
		"INDEX audit_log_by_resource (app_id=? AND kind=? AND resource=?",
	},
	{
		"AS matches FROM audit_log",
		"",
		"INDEX audit_log_by_app (app_id=?",
	},
	{
		"FROM audit_log WHERE seq",
		"",
		"SEARCH audit_log USING INTEGER PRIMARY KEY (rowid=?)",
	},
	{
		"FROM ended_sign_ins",
		"ended_sign_ins const PRIMARY|Impossible WHERE noticed after reading const tables|no matching row in const table",
		"SEARCH ended_sign_ins USING PRIMARY KEY (issuer=? AND subject=?)",
	},
	{
		"UPDATE slices",
		"slices range PRIMARY",
		"SEARCH slices USING PRIMARY KEY (minute=? AND bucket=?)",
	},
}

// work makes all frequent calls to a store, with enough rows that a scan would be seen.
func work(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	at, err := s.Now(ctx)
	require.NoError(t, err)
	now := at.UnixMilli()
	var items []store.NewTimer
	for i := range 300 {
		items = append(items, store.NewTimer{App: "app", Name: fmt.Sprint(i), Activate: true})
	}
	out, err := s.Create(ctx, items, func(tm *timer.Timer, _ int64) store.Plan {
		p := store.Plan{NextDueMS: now + timer.MinuteMS, ExpandAtMS: now}
		for i := range int64(10) {
			due := now + (i-8)*timer.MinuteMS/2
			p.Fires = append(
				p.Fires,
				timer.Fire{FireID: timer.FireID{Timer: tm.ID, DueMS: due}, RunAtMS: due},
			)
		}
		return p
	})
	require.NoError(t, err)
	var fires []timer.Fire
	for _, c := range out {
		fires = append(fires, c.Fires...)
	}
	_, err = s.Cursor(ctx, timer.MinuteOf(now))
	require.NoError(t, err)
	require.NoError(
		t,
		s.OpenSession(ctx, store.Session{ID: 11, Kind: store.ExecutorSession, Name: "a"}),
	)
	require.NoError(
		t,
		s.OpenSession(ctx, store.Session{ID: 2, Kind: store.ExecutorSession, Name: "b"}),
	)
	won, err := s.Claim(ctx, 11, fires[:300])
	require.NoError(t, err)
	require.Len(t, won, 300)
	_, err = s.Claim(ctx, 2, fires[200:400])
	require.NoError(t, err)
	_, err = s.Release(ctx, 11, won[:10], nil)
	require.NoError(t, err)
	var outcomes []timer.Outcome
	for _, f := range won[10:] {
		outcomes = append(
			outcomes,
			timer.Outcome{
				Fire:       f,
				Kind:       timer.Delivered,
				FinishedMS: now,
				UntilMS:    f.DueMS,
				Count:      1,
			},
		)
	}
	for range 2 {
		lost, _, err := s.Record(ctx, 11, outcomes, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
	}
	var called []timer.FireID
	for i := range outcomes {
		called = append(called, outcomes[i].FireID)
	}
	for _, ids := range [][]timer.FireID{called, called[:1]} {
		_, err = s.TargetAttempts(ctx, ids)
		require.NoError(t, err)
	}
	f := fires[1000]
	for _, after := range []store.Position{{}, {RunAtMS: f.RunAtMS, FireID: f.FireID}} {
		_, err = s.LoadSlice(ctx, f.RunAtMinute(), 0, after, now, 100)
		require.NoError(t, err)
	}
	for range 3 {
		_, err = s.Overdue(ctx, store.OverdueQuery{Live: []timer.ID{2}, Shards: 2, Limit: 50})
		require.NoError(t, err)
	}
	_, err = s.Owned(ctx, []timer.ID{2}, 0, now, 10)
	require.NoError(t, err)
	_, err = s.OldestOpen(ctx)
	require.NoError(t, err)
	_, _, err = s.OverdueByApp(ctx, 1000, 5)
	require.NoError(t, err)
	replanZones(t, s)
	_, err = s.OpenFires(
		ctx,
		"app",
		f.Timer,
		store.OpenFiresQuery{
			After:     store.OpenFiresPosition{DueMS: won[20].DueMS, Series: 0},
			UntilMS:   now,
			ScanLimit: 500,
			Limit:     10,
		},
	)
	require.NoError(t, err)
	_, err = s.OpenFires(ctx, "app", f.Timer, store.OpenFiresQuery{ // it ends within an instant
		After:   store.OpenFiresPosition{DueMS: 1, Series: store.BeforeAllSeries},
		UntilMS: now, ScanLimit: 500, Limit: 10,
	})
	require.NoError(t, err)
	_, err = s.History(ctx, "app", won[20].Timer, won[20].FireID, 10)
	require.NoError(t, err)
	_, found, err := s.LastScheduled(ctx, "app", won[20].Timer, won[20].DueMS+1)
	require.NoError(t, err)
	require.True(t, found)
	workAppHistory(t, s, &outcomes[20])
	_, err = s.Fire(ctx, "app", won[20].FireID)
	require.NoError(t, err)
	workDelivery(t, s, now, won[20:30])
	claims, err := s.ClaimSlices(ctx, timer.MinuteOf(now), 5, time.Minute, 5)
	require.NoError(t, err)
	_, err = s.RenewSlices(ctx, 11, claims, time.Minute)
	require.NoError(t, err)
	_, _, err = s.Expand(ctx, 10, func(tm *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{NextDueMS: tm.NextDueMS, ExpandAtMS: nowMS}
	})
	require.NoError(t, err)
	_, _, err = s.ExpandBacklog(ctx, 10)
	require.NoError(t, err)
	workPolicies(t, s, fires[2000:], now)
	workSearches(t, s)
	workStates(t, s, f.Timer)
	workSingly(t, s, fires[1990:1992], claims[:1], now)
	workJobs(t, s)
	workAudit(t, s)
}

// workAudit reads the audit trail, with entries of several apps.
func workAudit(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	by := &store.Actor{Kind: store.ActorKey, ID: "k"}
	for i := range 300 {
		_, err := s.PutSettings(
			store.WithActor(ctx, by),
			[]string{"a", "b", "c", "app"}[i%4], store.AppSettings{Burst: i + 2}, 0,
		)
		require.NoError(t, err)
	}
	for _, q := range []store.AuditQuery{
		{},
		{Actor: "k"},
		{Kind: store.AuditSettings, Resource: "app"},
		{Kind: store.AuditTimer, Resource: "5"},
	} {
		q.App, q.Limit, q.ScanLimit = "app", 5, 20
		page, err := s.AuditTrail(ctx, q)
		require.NoError(t, err)
		if q.Before = page.Next; q.Before != 0 {
			_, err = s.AuditTrail(ctx, q)
			require.NoError(t, err)
		}
	}
	ahead := fmt.Sprint("UPDATE audit_log SET changed_ms=", time.Now().Add(time.Hour).UnixMilli(),
		" WHERE seq<10")
	_, err := s.Exec(ctx, ahead)
	require.NoError(t, err)
	_, err = s.PendingAudit(ctx, 0, time.Second, 1)
	require.NoError(t, err)
	require.NoError(t, s.PurgeAudit(ctx, time.Hour))
	purgeAllTimers(t, s)
	for i := range 300 {
		_, err := s.EndSignIns(ctx, "https://id.example.com", fmt.Sprint(i))
		require.NoError(t, err)
	}
	_, err = s.SignInsEnded(ctx, "https://id.example.com", "7")
	require.NoError(t, err)
}

// workJobs makes the calls about jobs, with many finished ones.
func workJobs(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	for n, app := range []string{"a", "b", "c", "app"} {
		_, err := s.PutSettings(ctx, app, store.AppSettings{Rate: 1}, 0)
		require.NoError(t, err)
		for i := range timer.ID(100) {
			j := store.Job{ID: i*10 + timer.ID(n) + 1, App: app, Action: store.JobRun}
			if i%20 == 0 {
				other := store.Job{ID: j.ID + 5, App: app, Action: store.JobPause}
				_, err := s.StartJob(ctx, other) // it is cancelled by the deletion
				require.NoError(t, err)
				j.Action = store.JobDeleteApp
			}
			_, err := s.StartJob(ctx, j)
			require.NoError(t, err)
			if i < 90 || app != "app" {
				j, ok, err := s.LeaseJob(ctx, 0)
				require.NoError(t, err)
				require.True(t, ok)
				j.Status = store.JobDone
				_, err = s.AdvanceJob(ctx, j)
				require.NoError(t, err)
			}
		}
		_, err = s.Jobs(ctx, app, 500, 5)
		require.NoError(t, err)
		_, _, err = s.JobBacklog(ctx, 10)
		require.NoError(t, err)
	}
}

// workAppHistory reads an app's finished fires in both orders, all of them and failed ones.
func workAppHistory(t *testing.T, s *sqlstore.Store, o *timer.Outcome) {
	t.Helper()
	for _, kinds := range [][]timer.OutcomeKind{nil, {timer.Failed}} {
		for _, ascending := range []bool{false, true} {
			for _, after := range []store.OutcomePosition{{}, store.PositionOf(o)} {
				q := store.OutcomeQuery{
					OutcomeFilter: store.OutcomeFilter{Kinds: kinds, Timers: []timer.ID{o.Timer}},
					App:           "app",
					FromMS:        o.FinishedMS - 1000,
					ToMS:          o.FinishedMS + 1000,
					Ascending:     ascending,
					After:         after,
					ScanLimit:     5,
					Limit:         5,
				}
				_, err := s.Outcomes(t.Context(), q)
				require.NoError(t, err)
				_, err = s.CountOutcomes(t.Context(), q, 1000)
				require.NoError(t, err)
			}
		}
	}
}

// workSingly makes the same calls for one row each: a list of one must use the index, too.
func workSingly(
	t *testing.T,
	s *sqlstore.Store,
	fires []timer.Fire,
	claims []store.SliceClaim,
	now int64,
) {
	t.Helper()
	ctx := t.Context()
	won, err := s.Claim(ctx, 2, fires[:1])
	require.NoError(t, err)
	require.Len(t, won, 1)
	_, err = s.Claim(ctx, 11, fires[:1]) // of another session
	require.NoError(t, err)
	_, err = s.Release(ctx, 2, won, nil)
	require.NoError(t, err)
	won, err = s.Claim(ctx, 2, fires[1:])
	require.NoError(t, err)
	failed := []timer.Outcome{
		{Fire: won[0], Kind: timer.Failed, FinishedMS: now, UntilMS: won[0].DueMS, Count: 1},
	}
	for range 2 {
		lost, _, err := s.Record(ctx, 2, failed, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
	}
	one := store.DeadLetterQuery{App: "app", Fires: []timer.FireID{won[0].FireID}, Series: 78}
	_, err = s.DeadLetters(ctx, one)
	require.NoError(t, err)
	_, err = s.Redrive(ctx, one)
	require.NoError(t, err)
	_, err = s.Overdue(ctx, store.OverdueQuery{Shards: 1, Limit: 1})
	require.NoError(t, err)
	// It has no holder, and is found in the same way.
	_, err = s.RenewSlices(ctx, 11, claims, time.Minute)
	require.NoError(t, err)
}

// workPolicies makes the calls about slots, calendars and backfills.
func workPolicies(t *testing.T, s *sqlstore.Store, fires []timer.Fire, now int64) {
	t.Helper()
	ctx := t.Context()
	won, err := s.Claim(ctx, 2, fires[:200])
	require.NoError(t, err)
	require.Len(t, won, 200)
	requests := make([]store.SlotRequest, len(won))
	for i, f := range won {
		requests[i] = store.SlotRequest{
			Fire:        f,
			Concurrency: timer.Concurrency{Policy: timer.ConcurrencyQueueAll},
		}
	}
	slots, err := s.AcquireSlots(ctx, 2, requests)
	require.NoError(t, err)
	var outcomes []timer.Outcome
	for i, f := range won {
		if slots[i].SlotVerdict == store.SlotGranted {
			outcomes = append(outcomes, timer.Outcome{
				Fire:       f,
				Kind:       timer.Delivered,
				FinishedMS: now,
				UntilMS:    f.DueMS,
				Count:      1,
				Serial:     true,
			})
		}
	}
	_, made, err := s.Record(ctx, 2, outcomes, nil)
	require.NoError(t, err)
	require.NotEmpty(t, made)
	for _, name := range []string{"a", "b"} {
		_, err = s.PutCalendar(ctx, "app", timer.Calendar{Name: name}, 0)
		require.NoError(t, err)
	}
	all, err := s.List(ctx, store.Query{App: "app", Limit: 300})
	require.NoError(t, err)
	none := func(tm *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{NextDueMS: tm.NextDueMS, ExpandAtMS: nowMS + timer.MinuteMS}
	}
	for n := range 2 {
		var edits []store.Edit
		for i, tm := range all {
			d := timer.Definition{
				Schedule: timer.Schedule{Calendars: []string{"a", "b"}[:1+(i+n)%2]},
				Target:   timer.Target{URL: rand.Text()},
			}
			edits = append(edits, store.Edit{App: "app", ID: tm.ID, Definition: d})
		}
		_, err = s.Edit(ctx, edits, none)
		require.NoError(t, err)
	}
	_, err = s.PutCalendar(ctx, "app", timer.Calendar{Name: "b"}, 0)
	require.NoError(t, err)
	for _, after := range []timer.ID{0, all[len(all)/2].ID} {
		_, err = s.TimersOfCalendar(ctx, "app", "b", after, 10)
		require.NoError(t, err)
	}
	require.ErrorContains(t, s.DeleteCalendar(ctx, "app", "b"), "names it")
	for i := range timer.ID(60) {
		id := timer.ID(now) + 1000 + i
		_, err = s.StartBackfill(
			ctx,
			store.Backfill{
				ID:     id,
				App:    "app",
				Timer:  all[0].ID,
				FromMS: now - timer.MinuteMS,
				ToMS:   now,
			},
		)
		require.NoError(t, err)
		if i%2 == 0 {
			_, err = s.CancelBackfill(ctx, "app", id)
			require.NoError(t, err)
		}
	}
	fires, _, err = s.ExpandBackfills(
		ctx,
		10,
		func(tm *timer.Timer, b *store.Backfill, nowMS int64) ([]timer.Fire, int64, error) {
			return []timer.Fire{
				{
					FireID:  timer.FireID{Timer: tm.ID, DueMS: b.FromMS, Series: int64(b.ID)},
					RunAtMS: nowMS,
				},
			}, b.ToMS, nil
		},
	)
	require.NoError(t, err)
	for _, f := range fires {
		_, err = s.CancelBackfill(ctx, "app", timer.ID(f.Series))
		require.NoError(t, err)
	}
}

// workSearches searches in all orders, from all sources, before and after a position.
func workSearches(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	var edits []store.Edit
	all, err := s.List(ctx, store.Query{App: "app", Limit: 300})
	require.NoError(t, err)
	for i, tm := range all {
		d := timer.Definition{
			Target: timer.Target{URL: "http://" + []string{"a", "b", "c"}[i%3]},
			Labels: map[string]string{"n": fmt.Sprint(i), "team": fmt.Sprint(i % 5)},
		}
		edits = append(edits, store.Edit{App: "app", ID: tm.ID, Definition: d})
	}
	none := func(tm *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{NextDueMS: tm.NextDueMS, ExpandAtMS: nowMS + timer.MinuteMS}
	}
	_, err = s.Edit(ctx, edits, none)
	require.NoError(t, err)
	for i := range edits[:20] {
		edits[i].Definition.Labels = nil
	}
	for _, some := range [][]store.Edit{edits[:1], edits[:20]} { // deletes one, and many
		some[0].Definition.Labels = map[string]string{"n": fmt.Sprint(len(some))}
		_, err = s.Edit(ctx, some, none)
		require.NoError(t, err)
	}
	s.SetSearchLimits(10)
	for _, labels := range []string{"", "team=1", "team in (1,2)", "team,n!=3", "n,team=2"} {
		for _, f := range []store.Filter{
			{},
			{NamePrefix: "1"},
			{NameContains: "2"},
			{TargetHost: "a"},
			{DueToMS: timer.NeverMS - 1},
			{LastOutcome: timer.Failed},
			{Status: timer.StatusPaused},
			{Status: timer.StatusActive},
		} {
			f.App = "app"
			f.Labels, err = selector.Parse(labels)
			require.NoError(t, err)
			for _, sort := range []store.Sort{store.SortID, store.SortName, store.SortNextDue} {
				for _, desc := range []bool{false, true} {
					q := store.SearchQuery{Filter: f, Sort: sort, Desc: desc, Limit: 3}
					q.NextDue = func(_ context.Context, t *timer.Timer) (int64, error) { return t.NextDueMS, nil }
					page, err := s.Search(ctx, q)
					require.NoError(t, err)
					q.After = page.Next
					_, err = s.Search(ctx, q)
					require.NoError(t, err)
					_, err = s.Count(ctx, q)
					require.NoError(t, err)
				}
			}
		}
	}
}

// workStates reads states of timers, of which most are in one app.
func workStates(t *testing.T, s *sqlstore.Store, id timer.ID) {
	t.Helper()
	ctx := t.Context()
	states, err := s.StatesAfter(ctx, id-1, 50)
	require.NoError(t, err)
	require.Len(t, states, 50)
	var ids []timer.ID
	for _, st := range states {
		ids = append(ids, st.ID)
	}
	changes, err := s.Changes(ctx, 5, 500)
	require.NoError(t, err)
	require.NotEmpty(t, changes)
	for _, some := range [][]timer.ID{ids, ids[:1]} {
		states, err = s.States(ctx, some)
		require.NoError(t, err)
		require.Len(t, states, len(some))
	}
}

// workDelivery makes the calls that read outcomes.
func workDelivery(t *testing.T, s *sqlstore.Store, now int64, delivered []timer.Fire) {
	t.Helper()
	ctx := t.Context()
	for _, after := range []store.OutcomePosition{{}, {FinishedMS: now, FireID: delivered[0].FireID}} {
		out, err := s.PendingEvents(ctx, 11, after, now+timer.MinuteMS, 1000)
		require.NoError(t, err)
		require.NotEmpty(t, out)
	}
	again, err := s.Claim(ctx, 2, mustOwned(t, s, now))
	require.NoError(t, err)
	var failed []timer.Outcome
	for _, f := range again[:5] {
		failed = append(
			failed,
			timer.Outcome{Fire: f, Kind: timer.Failed, FinishedMS: now, UntilMS: f.DueMS, Count: 1},
		)
	}
	lost, _, err := s.Record(ctx, 2, failed, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	ids := []timer.FireID{failed[0].FireID, failed[1].FireID}
	for _, q := range []store.DeadLetterQuery{
		{App: "app", FromMS: 5, After: store.OutcomePosition{FinishedMS: now, FireID: delivered[0].FireID}},
		{App: "app"},
		{App: "app", Timer: failed[0].Timer, FromMS: 5, ToMS: now},
		{App: "app", Fires: ids},
	} {
		page, err := s.DeadLetters(ctx, q)
		require.NoError(t, err)
		require.NotEmpty(t, page.DeadLetters)
	}
	for _, q := range []store.DeadLetterQuery{{App: "app", Fires: ids}, {App: "app"}} {
		q.Series = 77
		_, err := s.Redrive(ctx, q)
		require.NoError(t, err)
	}
}

// purgeAllTimers removes called one-shots and deleted timers.
func purgeAllTimers(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	past := time.Now().Add(-72 * time.Hour)
	items := make([]store.NewTimer, 20)
	for i := range items {
		items[i] = store.NewTimer{
			App: "app", Name: fmt.Sprint("purged", i), Activate: true,
			Definition: timer.Definition{
				Schedule: timer.Schedule{Kind: timer.KindAt, At: &past},
				Target:   timer.Target{Kind: timer.KindHTTP, URL: "http://a", Method: "POST"},
				Retry:    timer.DefaultRetry(),
				Labels:   map[string]string{"purged": "yes"},
			},
		}
	}
	made, err := s.Create(ctx, items, func(tm *timer.Timer, _ int64) store.Plan {
		return store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS, Fires: []timer.Fire{{
			FireID: timer.FireID{Timer: tm.ID, DueMS: past.UnixMilli()}, RunAtMS: past.UnixMilli(),
			AppID: tm.AppID, Version: tm.Version, Epoch: tm.ActiveEpoch,
		}}}
	})
	require.NoError(t, err)
	var fires []timer.Fire
	for _, m := range made {
		fires = append(fires, m.Fires...)
	}
	require.NoError(
		t,
		s.OpenSession(ctx, store.Session{ID: 99, Kind: store.ExecutorSession, Name: "purge"}),
	)
	won, err := s.Claim(ctx, 99, fires)
	require.NoError(t, err)
	var outcomes []timer.Outcome
	for _, f := range won {
		outcomes = append(outcomes, timer.Outcome{
			Fire:       f,
			Kind:       timer.Delivered,
			FinishedMS: past.UnixMilli(),
			UntilMS:    f.DueMS,
			Count:      1,
		})
	}
	_, _, err = s.Record(ctx, 99, outcomes, nil)
	require.NoError(t, err)
	_, err = s.AddFires(ctx, "app", made[0].Timer.ID, []timer.Fire{{
		FireID: timer.FireID{Timer: made[0].Timer.ID, DueMS: past.UnixMilli(), Series: 5},
	}})
	require.NoError(t, err)
	_, err = s.SetStatus(ctx, []store.StatusChange{
		{App: "app", ID: made[1].Timer.ID, Status: timer.StatusDeleted},
	}, nil)
	require.NoError(t, err)
	require.NoError(t, s.PurgeTimers(ctx, -time.Hour, -time.Hour))
	defs, err := s.Definitions(ctx, []store.VersionKey{
		{Timer: made[0].Timer.ID, Version: 1},
		{Timer: made[1].Timer.ID, Version: 1},
		{Timer: made[2].Timer.ID, Version: 1},
	})
	require.NoError(t, err)
	require.Len(t, defs, 1, "the first has an open fire")
}

// replanZones replans a timer with max_fires.
func replanZones(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	d := timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindCron, Zone: "Europe/Berlin", MaxFires: 9},
	}
	plan := func(tm *timer.Timer, nowMS int64) store.Plan {
		p := store.Plan{
			NextDueMS:  max(tm.NextDueMS, nowMS+timer.MinuteMS),
			ExpandAtMS: nowMS + timer.MinuteMS,
		}
		if tm.NextDueMS == 0 {
			due := nowMS + timer.MinuteMS/2
			p.Fires = []timer.Fire{{
				FireID: timer.FireID{Timer: tm.ID, DueMS: due}, RunAtMS: due,
			}}
		}
		return p
	}
	_, err := s.Create(
		ctx,
		[]store.NewTimer{{App: "app", Name: "zoned", Definition: d, Activate: true}},
		plan,
	)
	require.NoError(t, err)
	for i, version := range []string{"1", "2"} {
		h := store.Process{ID: timer.ID(i + 1), Version: version}
		require.NoError(t, s.RegisterProcess(ctx, h, map[string]string{"Europe/Berlin": version}))
	}
	for more := true; more; {
		step, err := s.ReplanZones(ctx, 2, 100)
		require.NoError(t, err)
		more = step.More
	}
	_, _, err = s.Expand(ctx, 1000, plan)
	require.NoError(t, err)
}

func mustOwned(t *testing.T, s *sqlstore.Store, now int64) []timer.Fire {
	t.Helper()
	fires, err := s.Owned(t.Context(), []timer.ID{2}, 0, now, 50)
	require.NoError(t, err)
	require.NotEmpty(t, fires)
	return fires
}

// requirePlans does the work, then asks for the plan of every statement that was sent.
func requirePlans(
	t *testing.T,
	s *sqlstore.Store,
	explain func(ctx context.Context, text string) string,
	want func(i int) string,
) {
	t.Helper()
	var sent statements
	s.OnStatement(sent.watch)
	work(t, s)
	verbs := regexp.MustCompile("^(SELECT|UPDATE|DELETE)")
	numbers := regexp.MustCompile("=[0-9]+")
	seen := make([]bool, len(wantPlans))
	for _, text := range sent.forms() {
		if !verbs.MatchString(text) {
			continue
		}
		for i, w := range wantPlans {
			if !strings.Contains(numbers.ReplaceAllString(text, "=?"), w.part) {
				continue
			}
			seen[i] = true
			plan := explain(t.Context(), text)
			if !slices.ContainsFunc(
				strings.Split(want(i), "|"),
				func(w string) bool { return strings.Contains(plan, w) },
			) {
				t.Errorf("want %q, have:\n%s\nfor %.400s", want(i), plan, text)
			}
			break
		}
	}
	for i, w := range wantPlans {
		require.True(t, seen[i] || want(i) == "", "%s was not sent", w.part)
	}
}

// wordedAlike removes from a plan, or a wanted one, in which words MySQL and versions of MariaDB
// differ. Where a
// table has as few rows as here, MySQL may read a pinned index whole ("index") and not only its
// range.
func wordedAlike(plan string) string {
	for _, words := range [][2]string{
		{"Backward index scan; ", ""},
		{"; Backward index scan", ""},
		{"Using index condition", "Using where"},
		{"Using where; Using where", "Using where"},
		{" index PRIMARY ", " range PRIMARY "},
		{" index by_live_name ", " range by_live_name "},
		{"no matching row in const table", "Impossible WHERE noticed after reading const tables"},
	} {
		plan = strings.ReplaceAll(plan, words[0], words[1])
	}
	return strings.TrimSuffix(
		strings.ReplaceAll(plan+"|", " index PRIMARY|", " range PRIMARY|"),
		"|",
	)
}

// TestMySQLPlans checks that the frequent statements use the index that they are pinned to, without
// scans.
func TestMySQLPlans(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	var version string
	require.NoError(t, db.GetContext(t.Context(), &version, "SELECT VERSION()"))
	alike := wordedAlike
	switch {
	case strings.Contains(version, "MariaDB") && strings.HasPrefix(version, "10."):
		alike = func(plan string) string { return plan }
	case strings.Contains(version, "MariaDB"):
		// Since 11 it does not say so of primary keys, which have all columns.
		alike = func(plan string) string {
			return wordedAlike(strings.ReplaceAll(plan, "; Using index", ""))
		}
	}
	explain := func(ctx context.Context, text string) string {
		var plan []struct {
			Table, Type, Key sql.NullString
			Extra            sql.NullString `db:"Extra"`
		}
		require.NoError(
			t,
			db.Unsafe().SelectContext(
				ctx, &plan, "EXPLAIN FORMAT=TRADITIONAL "+strings.ReplaceAll(text, "?", "'x'"),
			),
			text,
		)
		var lines []string
		for _, p := range plan {
			lines = append(
				lines,
				fmt.Sprintf(
					"%s %s %s %s",
					p.Table.String,
					p.Type.String,
					p.Key.String,
					p.Extra.String,
				),
			)
		}
		return alike(strings.Join(lines, "\n"))
	}
	requirePlans(
		t,
		openMySQL(t, sqlstore.MySQLOptions{DSN: dsn}),
		explain,
		func(i int) string { return alike(wantPlans[i].mysql) },
	)
}

// TestSQLitePlans checks the same on SQLite.
func TestSQLitePlans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openSQLite(t, sqlstore.SQLiteOptions{Dir: dir})
	db, err := sqlx.Open("sqlite", filepath.Join(dir, "carillon.db"))
	require.NoError(t, err)
	defer db.Close()
	explain := func(ctx context.Context, text string) string {
		var plan []struct {
			ID, Parent, NotUsed int
			Detail              string
		}
		args := slices.Repeat([]any{nil}, strings.Count(text, "?"))
		require.NoError(
			t, sqlx.SelectContext(ctx, db, &plan, "EXPLAIN QUERY PLAN "+text, args...), text,
		)
		var lines []string
		for _, p := range plan {
			lines = append(lines, p.Detail)
		}
		return strings.Join(lines, "\n")
	}
	requirePlans(t, s, explain, func(i int) string { return wantPlans[i].sqlite })
}
