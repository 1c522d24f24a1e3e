package explain_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	app     = "pay"
	id      = timer.ID(7)
	created = "2026-01-01T00:00:00Z"
	now     = "2026-01-10T12:00:00Z"
	due     = "2026-01-05T09:00:00Z" // of the schedule, past
	coming  = "2026-01-12T09:00:00Z" // of the schedule, in future
)

func ms(text string) int64 {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return at.UnixMilli()
}

// fixture is a store with one timer. By default it is due at nine each day, active since it was
// created, and expanded until now.
type fixture struct {
	timer     timer.Timer
	deleted   bool
	versions  []explain.Version
	inactive  []timer.Inactivity
	calendars map[string]store.CalendarVersion
	open      []timer.Fire
	outcomes  []timer.Outcome
	histories int // calls of History
	frozen    bool
	sessions  []store.Session
	purgedMS  int64
}

func newFixture() *fixture {
	return &fixture{
		timer: timer.Timer{
			ID: id, App: app, Name: "report", Status: timer.StatusActive, Version: 1,
			AnchorMS: ms(created), ActiveSinceMS: ms(created), CreatedMS: ms(created),
			VersionMS: ms(created), NextDueMS: ms("2026-01-11T09:00:00Z"),
			ExpandAtMS: ms("2026-01-11T08:30:00Z"),
		},
		versions: []explain.Version{{N: 1, SinceMS: ms(created), Definition: daily("0 9 * * *")}},
		sessions: []store.Session{{ID: 9, Name: "executor-9"}},
	}
}

func daily(spec string) timer.Definition {
	return timer.Definition{Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{spec}}}
}

func (fx *fixture) edit(since string, d timer.Definition) {
	fx.timer.Version++
	fx.versions = append(fx.versions, explain.Version{
		N: fx.timer.Version, SinceMS: ms(since), Definition: d,
	})
}

func (fx *fixture) change(f func(*timer.Definition)) { f(&fx.versions[0].Definition) }

func fire(at string, f timer.Fire) timer.Fire {
	f.FireID = timer.FireID{Timer: id, DueMS: ms(at), Series: f.Series}
	if f.RunAtMS == 0 {
		f.RunAtMS = f.DueMS
	}
	f.Version = 1
	return f
}

func outcome(at string, kind timer.OutcomeKind, reason timer.Reason) timer.Outcome {
	f := fire(at, timer.Fire{})
	return timer.Outcome{
		Fire: f, Kind: kind, Reason: reason, FinishedMS: f.DueMS + 20, UntilMS: f.DueMS, Count: 1,
		Attempts: 1, LatenessMS: 3, StatusCode: 200,
	}
}

func (fx *fixture) Timer(context.Context, string, timer.ID) (timer.Timer, error) {
	if fx.deleted {
		return timer.Timer{}, timer.NotFound("timer", id.String())
	}
	return fx.timer, nil
}

func (fx *fixture) States(context.Context, []timer.ID) ([]timer.State, error) {
	t := &fx.timer
	return []timer.State{{
		ID: t.ID, App: t.App, Name: t.Name, Status: t.Status, Version: t.Version,
		AnchorMS: t.AnchorMS, InactiveSinceMS: t.InactiveSinceMS, Frozen: fx.frozen,
	}}, nil
}

func (fx *fixture) Definitions(
	_ context.Context, keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	out := map[store.VersionKey]*timer.Definition{}
	for _, k := range keys {
		out[k] = &fx.versions[k.Version-1].Definition
	}
	return out, nil
}

func (fx *fixture) VersionTimes(
	_ context.Context, keys []store.VersionKey,
) (map[store.VersionKey]int64, error) {
	out := map[store.VersionKey]int64{}
	for _, k := range keys {
		out[k] = fx.versions[k.Version-1].SinceMS
	}
	return out, nil
}

func (fx *fixture) Inactivities(
	context.Context, []timer.ID,
) (map[timer.ID][]timer.Inactivity, error) {
	return map[timer.ID][]timer.Inactivity{id: fx.inactive}, nil
}

func (fx *fixture) Calendar(_ context.Context, _, name string) (store.CalendarVersion, error) {
	c, ok := fx.calendars[name]
	if !ok {
		return c, timer.NotFound("calendar", name)
	}
	return c, nil
}

func (fx *fixture) SessionsByID(context.Context, []timer.ID) ([]store.Session, error) {
	return fx.sessions, nil
}

func (fx *fixture) OpenAmong(_ context.Context, ids []timer.FireID) ([]timer.Fire, error) {
	var out []timer.Fire
	for _, f := range fx.open {
		if slices.Contains(ids, f.FireID) {
			out = append(out, f)
		}
	}
	return out, nil
}

func (fx *fixture) OpenFires(
	_ context.Context, _ string, _ timer.ID, q store.OpenFiresQuery,
) (page store.OpenFiresPage, err error) {
	for _, f := range fx.open {
		if q.After.Before(f.FireID) && f.DueMS <= q.UntilMS {
			page.Fires = append(page.Fires, f)
		}
	}
	return page, nil
}

func (fx *fixture) History(
	_ context.Context, _ string, _ timer.ID, before timer.FireID, limit int,
) ([]timer.Outcome, error) {
	fx.histories++
	var out []timer.Outcome
	for i := len(fx.outcomes) - 1; i >= 0 && len(out) < limit; i-- {
		if before == (timer.FireID{}) || timer.CompareFireIDs(fx.outcomes[i].FireID, before) < 0 {
			out = append(out, fx.outcomes[i])
		}
	}
	return out, nil
}

func (fx *fixture) LastScheduled(
	_ context.Context, _ string, _ timer.ID, beforeMS int64,
) (o timer.Outcome, found bool, err error) {
	for _, o := range slices.Backward(fx.outcomes) {
		if o.Series == 0 && o.DueMS < beforeMS {
			return o, true, nil
		}
	}
	return o, false, nil
}

func (fx *fixture) PurgedBefore(context.Context) (int64, error) { return fx.purgedMS, nil }

func (fx *fixture) read(t *testing.T, from, to int64, limit int) *explain.Facts {
	t.Helper()
	f, err := explain.Read(t.Context(), fx, explain.Query{
		App: app, ID: id, FromMS: from, ToMS: to, Limit: limit,
		NowMS: ms(now), RetainedFromMS: ms("2026-01-03T00:00:00Z"),
	})
	require.NoError(t, err)
	return f
}

func (fx *fixture) at(t *testing.T, at string) []explain.Answer {
	t.Helper()
	return fx.read(t, ms(at), ms(at)+1, 1).Explain()
}

// TestCalendarsOfAnotherVersion checks that a calendar counts only for versions that name it.
func TestCalendarsOfAnotherVersion(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	days := timer.Calendar{Name: "holidays", ExcludedDates: []string{due[:10]}}
	fx.calendars = map[string]store.CalendarVersion{
		"holidays": {Calendar: days, UpdatedMS: ms(created)},
		"office":   {Calendar: timer.Calendar{Name: "office"}, UpdatedMS: ms(now)},
	}
	fx.change(func(d *timer.Definition) { d.Schedule.Calendars = []string{"holidays"} })
	next := daily("0 9 * * *")
	next.Schedule.Calendars = []string{"holidays", "office"}
	fx.edit("2026-01-07T00:00:00Z", next)
	got := fx.read(t, ms(due), ms(now), 100).Explain()
	require.Equal(t, explain.ByCalendar, got[0].Code, got[0].Text)
	require.Equal(t, explain.Missing, got[1].Code, got[1].Text)
	require.Equal(t, explain.CalendarChanged, got[2].Code, got[2].Text)
}

// TestEveryCode has a fixture for each code, and the sentence that goes with it.
func TestEveryCode(t *testing.T) {
	t.Parallel()
	type test struct {
		at      string
		fixture func(fx *fixture)
		code    explain.Code
		text    string
	}
	holiday := func(fx *fixture) {
		fx.calendars = map[string]store.CalendarVersion{"holidays": {
			Calendar:  timer.Calendar{Name: "holidays", ExcludedDates: []string{due[:10]}},
			UpdatedMS: ms(created),
		}}
		fx.change(func(d *timer.Definition) { d.Schedule.Calendars = []string{"holidays"} })
	}
	berlin := func(spec string) func(fx *fixture) {
		return func(fx *fixture) {
			fx.timer.AnchorMS = ms("2025-01-01T00:00:00Z")
			fx.change(func(d *timer.Definition) {
				d.Schedule.Specs, d.Schedule.Zone = []string{spec}, "Europe/Berlin"
			})
		}
	}
	inactive := func(status timer.Status, from, until int64) func(fx *fixture) {
		return func(fx *fixture) {
			fx.inactive = []timer.Inactivity{{FromMS: from, UntilMS: until, Status: status}}
		}
	}
	open := func(f timer.Fire) func(fx *fixture) {
		return func(fx *fixture) { fx.open = []timer.Fire{fire(due, f)} }
	}
	later := ms(now) + 5000
	tests := []test{
		{
			due,
			func(fx *fixture) { fx.outcomes = []timer.Outcome{outcome(due, timer.Delivered, "")} },
			explain.Delivered,
			"Delivered at 2026-01-05T09:00:00.02Z, 3 ms late, with 1 attempt.",
		},
		{coming, func(fx *fixture) {
			fx.open = []timer.Fire{fire(coming, timer.Fire{})}
		}, explain.Planned, "The fire is to be called at 2026-01-12T09:00:00Z."},
		{
			due,
			open(timer.Fire{Owner: 9}),
			explain.InProgress,
			"An executor has the fire, and may call it now: it is being called, is about to be, or its result " +
				"is not recorded yet. Only that executor knows.",
		},
		{
			due,
			open(timer.Fire{}),
			explain.Overdue,
			"The fire should have been called at 2026-01-05T09:00:00Z, and no executor has claimed it yet.",
		},
		{
			due,
			open(timer.Fire{Owner: 8}),
			explain.Overdue,
			"The fire should have been called at 2026-01-05T09:00:00Z. The executor that had claimed it has " +
				"ended, and whether that called it is not known; no other one has claimed it yet.",
		},
		{
			due, open(timer.Fire{Owner: 9, State: timer.FireRetrying, Attempt: 1}),
			explain.InProgress, "",
		},
		{
			due, open(timer.Fire{
				Owner: 9, State: timer.FireDeferred, RunAtMS: later,
				WaitedFor: timer.WaitLimits, WaitingSinceMS: ms(now),
			}),
			explain.InProgress, "",
		},
		{
			due, open(timer.Fire{Owner: 9, State: timer.FireRetrying, Attempt: 1, RunAtMS: later}),
			explain.WaitsForRetry,
			"1 attempt has failed; the next one is at 2026-01-10T12:00:05Z.",
		},
		{
			due,
			open(timer.Fire{State: timer.FireRetrying, Attempt: 3}),
			explain.WaitsForRetry,
			"3 attempts have failed; the next one should have been at 2026-01-05T09:00:00Z, and no " +
				"executor has claimed it yet.",
		},
		{
			due, open(timer.Fire{State: timer.FireRetrying, Attempt: 2, RunAtMS: later}),
			explain.WaitsForRetry,
			"2 attempts have failed; the next one is at 2026-01-10T12:00:05Z.",
		},
		{
			due,
			open(timer.Fire{State: timer.FireWaiting, RunAtMS: later}),
			explain.WaitsForTurn,
			"An earlier fire of the timer has not finished; it is called after that one, or asked again at 2026-01-10T12:00:05Z.",
		},
		{
			due, open(timer.Fire{State: timer.FireAccepted, RunAtMS: later}),
			explain.WaitsForCompleted,
			"The receiver has accepted the fire and has until 2026-01-10T12:00:05Z to complete it.",
		},
		{
			due,
			open(timer.Fire{State: timer.FireDeferred, RunAtMS: later}),
			explain.WaitsForLimits,
			"A limit of the app or the breaker of the endpoint held the fire back; it is asked again at 2026-01-10T12:00:05Z.",
		},
		{
			due, open(timer.Fire{RunAtMS: timer.DeferredMS}), explain.WaitsForActive,
			"The fire waits until its timer is active again.",
		},
		{
			coming,
			nil,
			explain.NotExpanded,
			"The timer is due then. Its fire does not exist yet: fires are created ahead of their time, the next ones at 2026-01-11T08:30:00Z.",
		},
		{coming, func(fx *fixture) {
			fx.change(func(d *timer.Definition) { d.Schedule.MaxFires = 3 })
			fx.timer.FiresCreated = 3
		}, explain.MaxFires, "The timer has had its 3 fires (max_fires)."},
		{due, func(fx *fixture) {
			fx.timer.AnchorMS = 0
		}, explain.NotActivated, "The timer has never been active. Activate it."},
		{
			due, inactive(timer.StatusInactive, ms(created), ms(now)), explain.Inactive,
			"The timer was inactive from 2026-01-01T00:00:00Z to 2026-01-10T12:00:00Z.",
		},
		{coming, func(fx *fixture) {
			inactive(timer.StatusPaused, ms(due), timer.NeverMS)(fx)
			fx.timer.Status, fx.timer.PauseReason = timer.StatusPaused, "release"
			fx.timer.InactiveSinceMS = ms(due)
		}, explain.Paused, "The timer is paused since 2026-01-05T09:00:00Z (release); the audit trail has by whom."},
		{coming, func(fx *fixture) { // its fire exists already
			inactive(timer.StatusPaused, ms(due), timer.NeverMS)(fx)
			fx.timer.Status, fx.timer.InactiveSinceMS = timer.StatusPaused, ms(due)
			fx.open = []timer.Fire{fire(coming, timer.Fire{})}
		}, explain.Paused, "The timer is paused since 2026-01-05T09:00:00Z; the audit trail has by whom."},
		{coming, func(fx *fixture) {
			fx.deleted, fx.timer.Status, fx.timer.InactiveSinceMS = true, timer.StatusDeleted, ms(
				now,
			)
		}, explain.Deleted, "The timer was deleted at 2026-01-10T12:00:00Z."},
		{due, func(fx *fixture) {
			fx.edit("2026-01-04T00:00:00Z", daily("0 10 * * *"))
		}, explain.Edited, "Version 1 has this instant; version 2, in force since 2026-01-04T00:00:00Z, has not."},
		{
			"2026-01-05T09:00:01Z",
			nil,
			explain.NotInSchedule,
			"The schedule does not have this instant. The nearest are 2026-01-05T09:00:00Z and 2026-01-06T09:00:00Z.",
		},
		{due, func(fx *fixture) {
			fx.change(func(d *timer.Definition) {
				at := time.UnixMilli(ms(coming))
				d.Schedule.StartAt = &at
			})
		}, explain.BeforeStart, "The schedule begins at 2026-01-12T09:00:00Z. The first one is 2026-01-12T09:00:00Z."},
		{due, func(fx *fixture) {
			fx.change(func(d *timer.Definition) {
				at := time.UnixMilli(ms(due))
				d.Schedule.EndAt = &at
			})
		}, explain.AfterEnd, "The schedule ends at 2026-01-05T09:00:00Z. The last one was 2026-01-04T09:00:00Z."},
		{
			due,
			holiday,
			explain.ByCalendar,
			`Excluded by calendar "holidays": 2026-01-05 is an excluded date. The nearest are 2026-01-04T09:00:00Z and 2026-01-06T09:00:00Z.`,
		},
		{due, func(fx *fixture) {
			holiday(fx)
			fx.change(func(d *timer.Definition) { d.Schedule.Excluded = timer.ExcludedNext })
		}, explain.Moved, `Excluded by calendar "holidays": 2026-01-05 is an excluded date; moved to 2026-01-06T09:00:00Z.`},
		{
			"2026-03-29T01:30:00Z",
			berlin("30 2 * * *"),
			explain.ByGap,
			"The local time 2026-03-29T02:30:00 does not exist, because clocks were set forward; due at 2026-03-29T01:00:00Z instead.",
		},
		{
			"2026-03-29T01:30:00Z",
			func(fx *fixture) {
				berlin("30 2 * * *")(fx)
				fx.change(func(d *timer.Definition) {
					d.Schedule.StartAt = new(time.UnixMilli(ms("2026-03-29T01:10:00Z")))
				})
			},
			explain.ByGap,
			"The local time 2026-03-29T02:30:00 does not exist, because clocks were set forward, and the end of the gap is outside the schedule's start and end. The first one is 2026-03-30T00:30:00Z.",
		},
		{
			"2026-10-25T01:30:00Z",
			berlin("30 2 * * *"),
			explain.ByOverlap,
			"This local time occurs twice, because clocks were set back, and the policy selects the other pass. The nearest are 2026-10-25T00:30:00Z and 2026-10-26T01:30:00Z.",
		},
		{
			"2026-01-02T09:00:00Z", nil, explain.BeyondRetention,
			"The schedule has this instant. Outcomes that old are deleted.",
		},
		{due, func(fx *fixture) {
			holiday(fx)
			c := fx.calendars["holidays"]
			c.UpdatedMS = ms(now)
			fx.calendars["holidays"] = c
		}, explain.CalendarChanged, "A calendar of the schedule has changed since, at 2026-01-10T12:00:00Z; its earlier content is not kept."},
		{due, func(fx *fixture) { // whatever the calendar was, it was not active then
			holiday(fx)
			c := fx.calendars["holidays"]
			c.UpdatedMS = ms(now)
			fx.calendars["holidays"] = c
			fx.timer.AnchorMS = ms(due) + 1000
		}, explain.NotActivated, "The timer was activated first at 2026-01-05T09:00:01Z."},
		{due, func(fx *fixture) {
			fx.change(func(d *timer.Definition) { d.Schedule.Calendars = []string{"gone"} })
		}, explain.UnknownSchedule, "The schedule of version 1 cannot be read: no calendar gone in this app."},
		{"2026-01-05T08:00:00Z", func(fx *fixture) {
			berlin("0 9 * * *")(fx)
			fx.edit("2026-01-07T00:00:00Z", fx.versions[0].Definition)
		}, explain.ZoneChanged, "The rules of a time zone have changed since, at 2026-01-07T00:00:00Z: until then the timer was due by the rules of before, which are not kept."},
		{"2026-01-05T08:00:00Z", func(fx *fixture) {
			berlin("0 9 * * *")(fx)
			next := fx.versions[0].Definition
			next.Schedule.Specs = []string{"0 9 * * *", "0 10 * * *"}
			fx.edit("2026-01-07T00:00:00Z", next)
		}, explain.Missing, ""},
		{due, func(fx *fixture) {
			fx.edit("2026-01-07T00:00:00Z", fx.versions[0].Definition)
		}, explain.Missing, ""},
		{
			due,
			nil,
			explain.Missing,
			"The schedule has this instant, and there is neither a fire nor an outcome. This is an error of Carillon.",
		},
	}
	for kind, reasons := range map[timer.OutcomeKind][]timer.Reason{
		timer.Failed: {
			timer.ReasonExhausted, timer.ReasonNotRetried, timer.ReasonGaveUp, timer.ReasonGone,
			timer.ReasonRejected, "",
		},
		timer.Skipped: {
			timer.ReasonInactive, timer.ReasonPaused, timer.ReasonFrozen, timer.ReasonDeleted,
			timer.ReasonMisfired, timer.ReasonSuperseded, timer.ReasonOverlap,
			timer.ReasonQueueFull, timer.ReasonCancelled, "",
		},
	} {
		for _, r := range reasons {
			code := explain.Code(kind)
			if r != "" {
				code += "_" + explain.Code(r)
			}
			tests = append(tests, test{due, func(fx *fixture) {
				fx.outcomes = []timer.Outcome{outcome(due, kind, r)}
			}, code, ""})
		}
	}
	var seen []explain.Code
	for _, tt := range tests {
		seen = append(seen, tt.code)
		t.Run(string(tt.code)+" "+tt.text, func(t *testing.T) {
			t.Parallel()
			fx := newFixture()
			if tt.fixture != nil {
				tt.fixture(fx)
			}
			got := fx.at(t, tt.at)
			require.Len(t, got, 1)
			require.Equal(t, tt.code, got[0].Code, got[0].Text)
			require.NotEmpty(t, got[0].Text)
			if tt.text != "" {
				require.Equal(t, tt.text, got[0].Text)
			}
		})
	}
	slices.Sort(seen)
	require.ElementsMatch(t, explain.Codes(), slices.Compact(seen), "a test for each code")
}

func TestDocumentListsEveryCode(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/explain.md")
	require.NoError(t, err)
	var codes, hops, holds, paths, waits strings.Builder
	row := func(b *strings.Builder, code, text string) { fmt.Fprintf(b, "| `%s` | %s |\n", code, text) }
	for _, m := range explain.Meanings() {
		row(&codes, string(m.Code), m.Text)
	}
	for _, m := range explain.HopMeanings() {
		row(&hops, string(m.Code), m.Text)
	}
	for _, m := range explain.HoldMeanings() {
		row(&holds, string(m.Code), m.Text)
	}
	for _, m := range timer.Paths() {
		row(&paths, m.Name, m.Doc)
	}
	for _, m := range timer.Waits() {
		row(&waits, m.Name, m.Doc)
	}
	for head, want := range map[string]string{
		"| code | why |": codes.String(), "| hop | what |": hops.String(),
		"| hold | what |": holds.String(), "| path | what brought the fire |": paths.String(),
		"| wait | what for |": waits.String(),
	} {
		_, table, found := strings.Cut(string(doc), head+"\n|---|---|\n")
		require.True(t, found, head)
		table, _, _ = strings.Cut(table, "\n\n")
		require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(table), head)
	}
}

func TestStretchOfSkippedFiresExplainsEachInstant(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	skipped := outcome("2026-01-04T09:00:00Z", timer.Skipped, timer.ReasonMisfired)
	skipped.UntilMS, skipped.Count = ms("2026-01-07T09:00:00Z"), 4
	fx.outcomes = []timer.Outcome{skipped, outcome("2026-01-08T09:00:00Z", timer.Delivered, "")}
	got := fx.at(t, due)
	require.Len(t, got, 1)
	require.Equal(t, explain.Code("skipped_misfired"), got[0].Code)
	require.True(t, got[0].Due)
	require.Contains(t, got[0].Text, "Skipped with 3 others")
	require.Equal(t, explain.NotInSchedule, fx.at(t, "2026-01-05T10:00:00Z")[0].Code)
}

func TestRequestedFireHasItsOwnAnswer(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	o := outcome(due, timer.Delivered, "")
	again := o
	again.Series, again.Cause = 12, timer.CauseRedrive
	fx.outcomes = []timer.Outcome{o, again}
	require.Len(t, fx.at(t, due), 2)
	fx.outcomes = []timer.Outcome{again}
	got := fx.at(t, due)
	require.Len(t, got, 2)
	require.Equal(t, explain.Missing, got[0].Code)
	require.Equal(t, explain.Delivered, got[1].Code)
}

// TestRaisedRetention explains an instant whose outcome was deleted by a shorter retention than that
// of now.
func TestRaisedRetention(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.purgedMS = ms(due) + 1
	require.Equal(t, explain.BeyondRetention, fx.at(t, due)[0].Code)
	fx.purgedMS = ms(due)
	require.Equal(t, explain.Missing, fx.at(t, due)[0].Code)
}

func TestRangeListsInstantsInPages(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.edit("2026-01-06T12:00:00Z", daily("0 6,18 * * *"))
	for _, at := range []string{"2026-01-04T09:00:00Z", due, "2026-01-06T09:00:00Z", "2026-01-06T18:00:00Z", "2026-01-07T06:00:00Z"} {
		fx.outcomes = append(fx.outcomes, outcome(at, timer.Delivered, ""))
	}
	var got []string
	from, pages := ms("2026-01-04T00:00:00Z"), 0
	for ; from != 0; pages++ {
		f := fx.read(t, from, ms("2026-01-07T12:00:00Z"), 2)
		for _, a := range f.Explain() {
			got = append(got, fmt.Sprintf("%s %s %d",
				time.UnixMilli(a.AtMS).UTC().Format("02T15"), a.Code, a.Version))
		}
		from = f.Next()
	}
	require.Equal(t, []string{
		"04T09 delivered 1", "05T09 delivered 1", "06T09 delivered 1",
		"06T18 delivered 1", "07T06 delivered 1",
	}, got)
	require.Equal(t, 3, pages)
}

// TestRangeOfManyVersions checks that each instant is explained by the version in force, however many
// there were.
func TestRangeOfManyVersions(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	for i := range 2200 {
		d := daily("0 9 * * *")
		if i == 2199 {
			d = daily("0 15 * * *")
		}
		fx.edit(
			time.UnixMilli(ms("2026-01-05T10:00:00Z")+int64(i)*1000).UTC().Format(time.RFC3339),
			d,
		)
	}
	fx.outcomes = append(fx.outcomes, outcome(due, timer.Delivered, ""))
	var got []string
	for from := ms("2026-01-05T00:00:00Z"); from != 0; {
		f := fx.read(t, from, ms("2026-01-06T20:00:00Z"), 100)
		for _, a := range f.Explain() {
			got = append(got, fmt.Sprint(time.UnixMilli(a.AtMS).UTC().Format("02T15 "), a.Version))
		}
		from = f.Next()
	}
	require.Equal(t, []string{"05T09 1", "05T15 2201", "06T15 2201"}, got)
}

// TestOneShotThatPassedWhileInactive checks the instant of a one-shot which passed before a fire for it
// was created: it is due when the timer is active again.
func TestOneShotThatPassedWhileInactive(t *testing.T) {
	t.Parallel()
	const until = "2026-01-06T09:00:00Z"
	at := time.UnixMilli(ms(due)).UTC()
	fx := newFixture()
	fx.change(func(d *timer.Definition) {
		d.Schedule = timer.Schedule{Kind: timer.KindAt, At: &at}
	})
	stretch := timer.Inactivity{
		FromMS: ms("2026-01-05T08:00:00Z"), UntilMS: ms(until), Status: timer.StatusPaused,
	}
	fx.inactive = []timer.Inactivity{stretch}
	fx.timer.NextDueMS, fx.timer.LastDueMS = timer.NeverMS, ms(until)
	fx.outcomes = append(fx.outcomes, outcome(until, timer.Delivered, ""))
	a := fx.at(t, due)[0]
	require.Equal(t, explain.Paused, a.Code)
	require.Equal(t, ms(until), a.MovedToMS)
	require.Equal(t, "The timer was paused from 2026-01-05T08:00:00Z to 2026-01-06T09:00:00Z; the "+
		"audit trail has by whom. So it was due at its activation instead, at "+until+".", a.Text)
	require.Equal(t, explain.Delivered, fx.at(t, until)[0].Code)

	// A pause that was changed goes on in the next stretch.
	changed := stretch
	changed.UntilMS = ms("2026-01-05T12:00:00Z")
	rest := timer.Inactivity{
		FromMS: changed.UntilMS, UntilMS: stretch.UntilMS, Status: timer.StatusInactive,
	}
	fx.inactive = []timer.Inactivity{changed, rest}
	require.Equal(t, ms(until), fx.at(t, due)[0].MovedToMS)
	rest.UntilMS = timer.NeverMS
	fx.inactive = []timer.Inactivity{changed, rest}
	require.Zero(t, fx.at(t, due)[0].MovedToMS)
	fx.deleted, fx.timer.Status = true, timer.StatusDeleted
	fx.timer.InactiveSinceMS = changed.UntilMS
	fx.inactive = []timer.Inactivity{changed}
	a = fx.at(t, due)[0]
	require.Zero(t, a.MovedToMS)
	require.NotContains(t, a.Text, "activation")
	fx.deleted, fx.timer.Status, fx.timer.InactiveSinceMS = false, timer.StatusActive, 0

	stretch.UntilMS = timer.NeverMS
	fx.inactive = []timer.Inactivity{stretch}
	a = fx.at(t, due)[0]
	require.Zero(t, a.MovedToMS)
	require.Contains(t, a.Text, "It is called once it is active.")
}

// TestRangeHasTheOpenFireOfNoSchedule checks that a range has the open fire of a fixed delay, and of a
// one-shot that was due at its edit.
func TestRangeHasTheOpenFireOfNoSchedule(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(ms("2026-01-01T00:00:00Z")).UTC()
	for _, s := range []timer.Schedule{
		{Kind: timer.KindFixedDelay, Every: timer.Duration(time.Second)},
		{Kind: timer.KindAt, At: &at},
	} {
		fx := newFixture()
		fx.change(func(d *timer.Definition) { d.Schedule = s })
		fx.timer.NextDueMS, fx.timer.LastDueMS = timer.NeverMS, ms(due)
		fx.open = []timer.Fire{fire(due, timer.Fire{State: timer.FireRetrying, Attempt: 1})}
		answers := fx.read(t, ms("2026-01-05T00:00:00Z"), ms("2026-01-06T00:00:00Z"), 10).Explain()
		require.Len(t, answers, 1, s.Kind)
		require.Equal(t, ms(due), answers[0].AtMS)
		require.Equal(t, fx.at(t, due)[0].Code, answers[0].Code)
	}
}

func TestDenseHistoryIsExplainedInShorterPages(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.change(func(d *timer.Definition) {
		d.Schedule = timer.Schedule{Kind: timer.KindFixedDelay, Every: timer.Duration(time.Second)}
	})
	first := ms(due)
	for i := range int64(9000) {
		o := outcome(due, timer.Delivered, "")
		o.DueMS = first + i*1000
		fx.outcomes = append(fx.outcomes, o)
	}
	var got []int64
	for from := first; from != 0; {
		f := fx.read(t, from, first+9_000_000, 1000)
		for _, a := range f.Explain() {
			require.Equal(t, explain.Delivered, a.Code)
			got = append(got, a.AtMS)
		}
		from = f.Next()
	}
	require.Len(t, got, 9000)
	require.True(t, slices.IsSorted(got))
}

// TestManyRequestsAreNotAllRead explains an instant behind many runs by request: it finds a stretch
// that reaches to the instant, and reads only the latest runs.
func TestManyRequestsAreNotAllRead(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	for i := range int64(20_000) {
		o := outcome(due, timer.Delivered, "")
		o.DueMS, o.Series = ms(due)-20_000+i, 7
		fx.outcomes = append(fx.outcomes, o)
	}
	require.Equal(t, explain.Missing, fx.at(t, due)[0].Code)
	require.Equal(t, 1, fx.histories)

	stretch := outcome(due, timer.Skipped, timer.ReasonPaused)
	stretch.DueMS, stretch.UntilMS, stretch.Count = ms(due)-24*60*60*1000, ms(due), 2
	fx.outcomes = append([]timer.Outcome{stretch}, fx.outcomes...)
	require.NotNil(t, fx.at(t, due)[0].Outcome, "it is found behind all of them")
	require.Equal(t, 2, fx.histories)
}

func TestAnotherAppLearnsNothing(t *testing.T) {
	t.Parallel()
	_, err := explain.Read(t.Context(), newFixture(), explain.Query{
		App: "other", ID: id, FromMS: 1, ToMS: 2, Limit: 1,
	})
	require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
}

// TestOpenFireOfARemovedInstant checks open fires of an older version whose instant an edit has
// removed, before migrators have decided about them.
func TestOpenFireOfARemovedInstant(t *testing.T) {
	t.Parallel()
	const edited = "2026-01-10T11:00:00Z"
	const still = " Its fire is still open, and will be skipped (superseded)."
	const gone = "Version 1 has this instant; version 2, in force since 2026-01-10T11:00:00Z, has not."
	for name, tt := range map[string]struct {
		change func(fx *fixture, f *timer.Fire)
		code   explain.Code
		text   string
	}{
		"removed":  {func(*fixture, *timer.Fire) {}, explain.Edited, gone + still},
		"claimed":  {func(_ *fixture, f *timer.Fire) { f.Owner = 9 }, explain.Edited, gone + still},
		"run now":  {func(_ *fixture, f *timer.Fire) { f.Series = 3 }, explain.Planned, ""},
		"retrying": {func(_ *fixture, f *timer.Fire) { f.State, f.Attempt = timer.FireRetrying, 1 }, explain.WaitsForRetry, ""},
		"kept": {func(fx *fixture, _ *timer.Fire) {
			fx.versions[1].Definition = daily("0 9,10 * * *")
		}, explain.Planned, ""},
		"edited twice": {
			func(fx *fixture, _ *timer.Fire) { fx.edit("2026-01-10T11:30:00Z", daily("0 11 * * *")) },
			explain.Edited,
			strings.NewReplacer("version 2", "version 3", "11:00:00Z", "11:30:00Z").Replace(gone) + still,
		},
		"calendar": {func(fx *fixture, _ *timer.Fire) {
			fx.versions[1].Definition = daily("0 9 * * *")
			for i := range fx.versions {
				fx.versions[i].Definition.Schedule.Calendars = []string{"holidays"}
			}
			fx.calendars = map[string]store.CalendarVersion{"holidays": {
				Calendar:  timer.Calendar{Name: "holidays", ExcludedDates: []string{coming[:10]}},
				UpdatedMS: ms(edited),
			}}
		}, explain.ByCalendar, `Excluded by calendar "holidays": 2026-01-12 is an excluded date. ` +
			"The nearest are 2026-01-11T09:00:00Z and 2026-01-13T09:00:00Z." + still},
		"paused": {func(fx *fixture, _ *timer.Fire) {
			fx.inactive = []timer.Inactivity{
				{FromMS: ms(edited), UntilMS: timer.NeverMS, Status: timer.StatusPaused},
			}
		}, explain.Paused, ""},
		"fixed delay": {func(fx *fixture, _ *timer.Fire) {
			fx.versions[1].Definition = timer.Definition{Schedule: timer.Schedule{
				Kind: timer.KindFixedDelay, Every: timer.Duration(time.Hour),
			}}
		}, explain.Planned, ""},
	} {
		fx := newFixture()
		fx.edit(edited, daily("0 10 * * *"))
		f := fire(coming, timer.Fire{})
		tt.change(fx, &f)
		fx.open = []timer.Fire{f}
		if f.Series != 0 { // its instant is explained beside it
			fx.open = append(fx.open, fire(coming, timer.Fire{}))
		}
		facts := fx.read(t, ms(coming), ms(coming)+1, 1)
		facts.Open = fx.open
		got := facts.Explain()[0]
		require.Equal(t, tt.code, got.Code, name)
		require.Equal(t, f.FireID, got.Open.FireID, name)
		if tt.text != "" {
			require.Equal(t, tt.text, got.Text, name)
			require.False(t, got.Due, name)
		}
	}
}

// TestFixedDelayNamesTheNearestInstants checks that the instants of a fixed delay are those of its
// fires, and that later ones are not known.
func TestFixedDelayNamesTheNearestInstants(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.change(func(d *timer.Definition) {
		d.Schedule = timer.Schedule{
			Kind:  timer.KindFixedDelay,
			Every: timer.Duration(24 * time.Hour),
		}
	})
	fx.outcomes = []timer.Outcome{
		outcome("2026-01-09T09:00:00Z", timer.Delivered, ""),
		outcome("2026-01-10T09:00:00Z", timer.Delivered, ""),
	}
	fx.timer.NextDueMS, fx.timer.LastDueMS = timer.NeverMS, ms("2026-01-11T09:00:00Z")
	const counts = "a fixed delay counts from the end of the last call."
	for at, want := range map[string]string{
		"2026-01-09T08:00:00Z": "No fire of the timer was due then: " + counts +
			" The first one is 2026-01-09T09:00:00Z.",
		"2026-01-09T10:00:00Z": "No fire of the timer was due then: " + counts +
			" The nearest are 2026-01-09T09:00:00Z and 2026-01-10T09:00:00Z.",
		"2026-01-11T08:00:00Z": "No fire of the timer is due then: " + counts +
			" The nearest are 2026-01-10T09:00:00Z and 2026-01-11T09:00:00Z.",
		"2026-01-12T09:00:00Z": "Whether a fire of the timer is due then is not known yet: " + counts +
			" The last one is 2026-01-11T09:00:00Z.",
	} {
		require.Equal(t, want, fx.at(t, at)[0].Text, at)
	}
	fx.change(func(d *timer.Definition) { d.Schedule.MaxFires = 3 })
	fx.timer.FiresCreated = 3
	last := fx.at(t, "2026-01-12T09:00:00Z")[0]
	require.Equal(t, explain.MaxFires, last.Code, last.Text)
	require.False(t, last.Due)
}

// TestCancelledFiresTellWhetherTheyWereCalled checks the sentences about fires that were given up.
func TestCancelledFiresTellWhetherTheyWereCalled(t *testing.T) {
	t.Parallel()
	text := func(change func(*timer.Outcome)) string {
		fx := newFixture()
		o := outcome(due, timer.Skipped, timer.ReasonCancelled)
		change(&o)
		fx.outcomes = []timer.Outcome{o}
		return fx.at(t, due)[0].Text
	}
	require.Equal(t, "Not called: a later fire of the timer replaced it.",
		text(func(o *timer.Outcome) { o.Attempts = 0 }))
	require.Equal(
		t,
		"Called with 1 attempt, and given up at 2026-01-05T09:00:00.02Z, because a later "+
			"fire of the timer replaced it.",
		text(func(*timer.Outcome) {}),
	)
	require.Equal(
		t,
		"Called with 2 attempts, and given up at 2026-01-05T09:00:00.02Z, because a later "+
			"fire replaced it, or its backfill was cancelled.",
		text(func(o *timer.Outcome) {
			o.Attempts, o.Cause, o.Owner = 2, timer.CauseBackfill, 9
		}),
	)
	require.Equal(t, "Not called: its backfill was cancelled.", text(func(o *timer.Outcome) {
		o.Attempts, o.Cause, o.Owner = 0, timer.CauseBackfill, store.SystemSession
	}))
	require.Equal(
		t,
		"Called with 1 attempt, and given up at 2026-01-05T09:00:00.02Z, because the app "+
			"was frozen.",
		text(func(o *timer.Outcome) { o.Reason = timer.ReasonFrozen }),
	)
}

// TestSkippedFireOfADeadExecutor checks that a fire that a dead executor may have called is not said
// to have been called by nobody.
func TestSkippedFireOfADeadExecutor(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	o := outcome(due, timer.Skipped, timer.ReasonMisfired)
	o.Attempts, o.Hops.Path = 0, timer.PathOrphaned
	fx.outcomes = []timer.Outcome{o}
	require.Equal(t, "Skipped at 2026-01-05T09:00:00.02Z: it was late, and the timer's misfire "+
		"policy does not call it. An executor that claimed it before has ended; whether that called "+
		"it is not known.", fx.at(t, due)[0].Text)
}

// TestGoneTargetIsNotTakenForTheLastAnswer checks the sentence about a fire with several targets of
// which one is gone, and another one failed.
func TestGoneTargetIsNotTakenForTheLastAnswer(t *testing.T) {
	t.Parallel()
	text := func(status int32) string {
		fx := newFixture()
		o := outcome(due, timer.Failed, timer.ReasonGone)
		o.StatusCode, o.Failure = status, timer.FailureStatus
		fx.outcomes = []timer.Outcome{o}
		return fx.at(t, due)[0].Text
	}
	const failed = "Failed at 2026-01-05T09:00:00.02Z after 1 attempt: "
	require.Equal(
		t,
		failed+"the receiver answered that it is gone, which pauses the timer if it is "+
			"active and was not edited since (status 410).",
		text(410),
	)
	require.Equal(
		t,
		failed+"one of its targets answered that it is gone, which pauses the timer if it is "+
			"active and was not edited since; "+
			"the call of another one failed (status 500).",
		text(500),
	)
	require.Equal(
		t,
		failed+"one of its targets answered that it is gone, which pauses the timer if it is "+
			"active and was not edited since.",
		text(0), "the other one delivered",
	)
}

// TestAnswerOfOneOfSeveralTargets checks the sentences about failures that have no status, because it
// would be that of one of several targets.
func TestAnswerOfOneOfSeveralTargets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason  timer.Reason
		failure timer.Failure
		want    string
	}{
		{
			timer.ReasonNotRetried, timer.FailureStatus,
			"the timer does not retry the answer of one of its targets.",
		},
		{timer.ReasonExhausted, timer.FailureStatus, "its last attempt failed."},
		{
			timer.ReasonExhausted, timer.FailureAsync,
			"its last attempt failed (accepted, and then completed as failed, or not in time).",
		},
	} {
		fx := newFixture()
		o := outcome(due, timer.Failed, c.reason)
		o.StatusCode, o.Failure = 0, c.failure
		fx.outcomes = []timer.Outcome{o}
		require.Equal(t,
			"Failed at 2026-01-05T09:00:00.02Z after 1 attempt: "+c.want, fx.at(t, due)[0].Text)
	}
}
