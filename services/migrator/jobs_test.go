package migrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// jobStore counts what is changed, and can stop before the progress of a page is written.
type jobStore struct {
	migrator.Store

	advances atomic.Int64
	dieAt    int64 // the number of the AdvanceJob that never returns; 0: none
	dead     chan struct{}

	mu      sync.Mutex
	changed map[timer.ID]int // how often SetStatus named a timer
	fires   map[timer.FireID]int
}

func newJobStore(st migrator.Store) *jobStore {
	return &jobStore{
		Store: st, dead: make(chan struct{}),
		changed: make(map[timer.ID]int), fires: make(map[timer.FireID]int),
	}
}

// AdvanceJob waits until its caller dies.
func (s *jobStore) AdvanceJob(ctx context.Context, j store.Job) (bool, error) {
	if n := s.advances.Add(1); s.dieAt > 0 && n >= s.dieAt {
		if n == s.dieAt {
			close(s.dead)
		}
		<-ctx.Done()
		return false, ctx.Err()
	}
	return s.Store.AdvanceJob(ctx, j)
}

func (s *jobStore) SetStatus(
	ctx context.Context,
	items []store.StatusChange,
	plan store.Planner,
) ([]store.StatusResult, error) {
	s.mu.Lock()
	for i := range items {
		s.changed[items[i].ID]++
	}
	s.mu.Unlock()
	return s.Store.SetStatus(ctx, items, plan)
}

func (s *jobStore) AddFires(
	ctx context.Context,
	app string,
	id timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	made, err := s.Store.AddFires(ctx, app, id, fires)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range made {
		s.fires[made[i].FireID]++
	}
	return made, err
}

// startJobs runs a migrator with small pages.
func startJobs(t *testing.T, parts *servicetest.Parts, st migrator.Store) (stop func()) {
	t.Helper()
	return startPages(t, parts, st, 10)
}

// startPages is startJobs with so many timers in a page, or the default for 0.
func startPages(
	t *testing.T, parts *servicetest.Parts, st migrator.Store, page int,
) (stop func()) {
	t.Helper()
	svc, err := migrator.New(migrator.Options{
		Store:      st,
		Dispatch:   parts.Dispatch,
		Bus:        parts.Bus("migrator"),
		Planner:    parts.Planner,
		Counts:     parts.Counts,
		Now:        time.Now,
		JobPage:    page,
		Every:      time.Second,
		Logger:     parts.Log,
		Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// labelled creates active timers of the app "a", every second one with the label team=pay.
func labelled(t *testing.T, parts *servicetest.Parts, n int) []timer.Timer {
	t.Helper()
	items := make([]store.NewTimer, n)
	for i := range items {
		d := servicetest.Once(time.Now().Add(240*time.Hour), "https://example.com/")
		if i%2 == 0 {
			d.Labels = map[string]string{"team": "pay"}
		}
		items[i] = store.NewTimer{
			App: "a", Name: fmt.Sprintf("t%03d", i), Definition: d, Activate: true,
		}
	}
	made, err := parts.Store.Create(t.Context(), items, parts.Plan)
	require.NoError(t, err)
	timers := make([]timer.Timer, n)
	for i := range made {
		require.NoError(t, made[i].Err)
		timers[i] = made[i].Timer
	}
	return timers
}

// startJob begins a job of the app "a".
func startJob(
	t *testing.T,
	st *sqlstore.Store,
	action store.JobAction,
	labels string,
	r store.JobRequest,
) store.Job {
	t.Helper()
	selected, err := selector.Parse(labels)
	require.NoError(t, err)
	r.Filter.App, r.Filter.Labels = "a", selected
	text, err := json.Marshal(r)
	require.NoError(t, err)
	j, err := st.StartJob(t.Context(), store.Job{
		ID: timer.NewIDs(time.Now).Next(), App: "a", Action: action, Request: text, Total: 50,
	})
	require.NoError(t, err)
	return j
}

// ended waits until a job has ended.
func ended(t *testing.T, st *sqlstore.Store, id timer.ID) store.Job {
	t.Helper()
	for range 1000 {
		j, err := st.Job(t.Context(), "a", id)
		require.NoError(t, err)
		if j.Status != store.JobRunning {
			return j
		}
		time.Sleep(time.Second)
	}
	require.Fail(t, "the job has not ended")
	return store.Job{}
}

// count returns how many timers of the app "a" have each status.
func count(t *testing.T, st *sqlstore.Store) map[timer.Status]int {
	t.Helper()
	all, err := st.List(t.Context(), store.Query{App: "a", Limit: 1000})
	require.NoError(t, err)
	n := map[timer.Status]int{}
	for i := range all {
		n[all[i].Status]++
	}
	return n
}

func TestJobsChangeWhatTheySelect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 100)
		startJobs(t, parts, parts.Store)
		j := startJob(t, parts.Store, store.JobPause, "team=pay", store.JobRequest{
			Reason: "moves", Filter: store.Filter{Status: timer.StatusActive},
		})
		done := ended(t, parts.Store, j.ID)
		require.Equal(t, store.JobDone, done.Status, done.Reason)
		require.EqualValues(t, 50, done.Done)
		require.Zero(t, done.Failed)
		require.Empty(t, done.Page)
		require.Equal(t,
			map[timer.Status]int{timer.StatusPaused: 50, timer.StatusActive: 50},
			count(t, parts.Store))

		j = startJob(t, parts.Store, store.JobRelabel, "team", store.JobRequest{
			Set: map[string]string{"env": "prod"}, Remove: []string{"team"},
		})
		require.EqualValues(t, 50, ended(t, parts.Store, j.ID).Done)
		j = startJob(t, parts.Store, store.JobResume, "env=prod,!team", store.JobRequest{
			Filter: store.Filter{Status: timer.StatusPaused},
		})
		require.EqualValues(t, 50, ended(t, parts.Store, j.ID).Done)
		require.Equal(t, map[timer.Status]int{timer.StatusActive: 100}, count(t, parts.Store))
		j = startJob(t, parts.Store, store.JobDelete, "env=prod", store.JobRequest{})
		require.EqualValues(t, 50, ended(t, parts.Store, j.ID).Done)
		require.Equal(t, map[timer.Status]int{timer.StatusActive: 50}, count(t, parts.Store))
	})
}

// TestJobsLeaveTimersThatAreCreatedLater checks that a job ends with the timers of its creation.
func TestJobsLeaveTimersThatAreCreatedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 60)
		st := newJobStore(parts.Store)
		st.dieAt = 3
		j := startJob(t, parts.Store, store.JobDelete, "", store.JobRequest{})
		stop := startJobs(t, parts, st)
		<-st.dead // the first timers are deleted
		stop()
		time.Sleep(time.Second)
		items := make([]store.NewTimer, 30) // more than a page
		for i := range items {
			items[i] = store.NewTimer{
				App: "a", Name: fmt.Sprintf("new%d", i), Activate: true,
				Definition: servicetest.Once(time.Now().Add(240*time.Hour), "https://example.com/"),
			}
		}
		made, err := parts.Store.Create(t.Context(), items, parts.Plan)
		require.NoError(t, err)
		for i := range made {
			require.NoError(t, made[i].Err)
		}
		startJobs(t, parts, parts.Store)
		done := ended(t, parts.Store, j.ID)
		require.Equal(t, store.JobDone, done.Status, done.Reason)
		require.EqualValues(t, 60, done.Done)
		require.Equal(t, map[timer.Status]int{timer.StatusActive: 30}, count(t, parts.Store))
	})
}

// TestJobsChangeForTheirActor checks who is named for what a job changes.
func TestJobsChangeForTheirActor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 20)
		startJobs(t, parts, parts.Store)
		by := &store.Actor{Kind: store.ActorKey, ID: "k1", Address: "10.0.0.7", Request: "r1"}
		ctx := store.WithActor(t.Context(), by)
		for action, want := range map[store.JobAction]store.AuditAction{
			store.JobPause: store.AuditPause, store.JobRelabel: store.AuditUpdate,
			store.JobRun: store.AuditRun,
		} {
			text, err := json.Marshal(store.JobRequest{
				Filter: store.Filter{App: "a"}, Set: map[string]string{"team": "new"},
			})
			require.NoError(t, err)
			j, err := parts.Store.StartJob(ctx, store.Job{
				ID: timer.NewIDs(time.Now).Next(), App: "a", Action: action, Request: text,
			})
			require.NoError(t, err)
			require.Equal(t, store.JobDone, ended(t, parts.Store, j.ID).Status)
			page, err := parts.Store.AuditTrail(ctx, store.AuditQuery{
				App: "a", Kind: store.AuditTimer, Action: want, ScanLimit: 1000, Limit: 1000,
			})
			require.NoError(t, err)
			require.Len(t, page.Entries, 20)
			for i := range page.Entries {
				carriedOut := *by
				carriedOut.Job = j.ID
				require.Equal(t, carriedOut, page.Entries[i].By)
			}
		}
	})
}

// TestJobsGoOnAfterACrash lets a migrator die after it changed a page and before it wrote that. The
// next one changes the same timers again, and nothing is done twice or left out.
func TestJobsGoOnAfterACrash(t *testing.T) {
	t.Parallel()
	for dieAt := int64(1); dieAt <= 6; dieAt++ {
		t.Run(fmt.Sprint(dieAt), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				timers := labelled(t, parts, 100)
				first, second := newJobStore(parts.Store), newJobStore(parts.Store)
				first.dieAt = dieAt
				j := startJob(t, parts.Store, store.JobRun, "team=pay", store.JobRequest{})
				stop := startJobs(t, parts, first)
				<-first.dead
				stop()
				startJobs(t, parts, second)
				done := ended(t, parts.Store, j.ID)
				require.Equal(t, store.JobDone, done.Status, done.Reason)
				require.EqualValues(t, 50, done.Done)
				made := map[timer.ID]int{}
				for _, by := range []*jobStore{first, second} {
					for id, n := range by.fires {
						made[id.Timer] += n
						require.EqualValues(t, j.ID, id.Series)
					}
				}
				require.Len(t, made, 50, "none is left out")
				for i := range timers {
					require.Equal(t, (i+1)%2, made[timers[i].ID], "timer %d", i)
				}
			})
		})
	}
}

// TestPausesGoOnAfterACrash does the same with a filter that the timers leave when they are changed.
func TestPausesGoOnAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 60)
		first := newJobStore(parts.Store)
		first.dieAt = 3
		j := startJob(t, parts.Store, store.JobPause, "", store.JobRequest{
			Filter: store.Filter{Status: timer.StatusActive},
		})
		stop := startJobs(t, parts, first)
		<-first.dead
		stop()
		require.Len(t, first.changed, 20)
		startJobs(t, parts, parts.Store)
		done := ended(t, parts.Store, j.ID)
		require.EqualValues(t, 60, done.Done, "each is counted once")
		require.Equal(t, map[timer.Status]int{timer.StatusPaused: 60}, count(t, parts.Store))
	})
}

// overtaken is a store in which somebody pauses one timer and deactivates another one just before a
// job changes them.
type overtaken struct {
	migrator.Store
	once        sync.Once
	paused, off timer.ID
}

func (o *overtaken) SetStatus(
	ctx context.Context,
	items []store.StatusChange,
	plan store.Planner,
) (out []store.StatusResult, err error) {
	o.once.Do(func() {
		_, err = o.Store.SetStatus(ctx, []store.StatusChange{
			{App: "a", ID: o.paused, Status: timer.StatusPaused, Reason: "by hand"},
			{App: "a", ID: o.off, Status: timer.StatusInactive},
		}, plan)
	})
	if err != nil {
		return nil, err
	}
	return o.Store.SetStatus(ctx, items, plan)
}

// TestPausesOfOthersStay checks that a job which pauses timers changes none that was paused since it
// chose them, and names those that it cannot pause.
func TestPausesOfOthersStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		made := labelled(t, parts, 4)
		startJobs(t, parts, &overtaken{
			Store: parts.Store, paused: made[1].ID, off: made[2].ID,
		})
		j := startJob(t, parts.Store, store.JobPause, "", store.JobRequest{
			Filter: store.Filter{Status: timer.StatusActive},
			Reason: "the warehouse moves", UntilMS: time.Now().Add(24 * time.Hour).UnixMilli(),
		})
		done := ended(t, parts.Store, j.ID)
		require.EqualValues(t, 3, done.Done)
		require.EqualValues(t, 1, done.Failed)
		require.Equal(t, made[2].ID, done.Errors[0].Timer)
		require.Equal(t, "t002", done.Errors[0].Name)
		kept, err := parts.Store.Timer(t.Context(), "a", made[1].ID)
		require.NoError(t, err)
		require.Equal(t, "by hand", kept.PauseReason)
		require.Zero(t, kept.PausedUntilMS)
	})
}

func TestCancelledJobsStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 60)
		st := newJobStore(parts.Store)
		st.dieAt = 3
		j := startJob(t, parts.Store, store.JobPause, "", store.JobRequest{})
		stop := startJobs(t, parts, st)
		<-st.dead // 20 are changed, and 10 of them are counted
		cancelled, err := parts.Store.CancelJob(t.Context(), "a", j.ID)
		require.NoError(t, err)
		require.EqualValues(t, 10, cancelled.Done)
		stop()
		startJobs(t, parts, parts.Store)
		time.Sleep(10 * time.Minute)
		require.Equal(t, store.JobCancelled, ended(t, parts.Store, j.ID).Status)
		require.Equal(t,
			map[timer.Status]int{timer.StatusPaused: 20, timer.StatusActive: 40},
			count(t, parts.Store))
	})
}

func TestJobsReportWhatTheyCannotChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 60)
		startJobs(t, parts, parts.Store)
		many := map[string]string{}
		for i := range timer.MaxLabels {
			many[fmt.Sprint(i)] = ""
		}
		j := startJob(t, parts.Store, store.JobRelabel, "", store.JobRequest{Set: many})
		done := ended(t, parts.Store, j.ID)
		require.Equal(t, store.JobDone, done.Status)
		require.EqualValues(t, 30, done.Done)
		require.EqualValues(t, 30, done.Failed, "they would have 33 labels")
		require.Len(t, done.Errors, store.MaxJobErrors)
		require.Contains(t, done.Errors[0].Error, "at most 32 labels")
		require.Equal(t, "t000", done.Errors[0].Name)
		_, err := parts.Store.SetFrozen(t.Context(), "a", true, "")
		require.NoError(t, err)
		j = startJob(t, parts.Store, store.JobRun, "", store.JobRequest{})
		done = ended(t, parts.Store, j.ID)
		require.EqualValues(t, 60, done.Failed)
		require.Contains(t, done.Errors[0].Error, "frozen")
		require.Equal(t, "t000", done.Errors[0].Name)
	})
}

// unreadable is a store that cannot read the definition of one timer, and has lost that of another
// one.
type unreadable struct {
	migrator.Store
	timer, lost timer.ID
}

func (u unreadable) Definitions(
	ctx context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	defs, err := u.Store.Definitions(ctx, keys)
	for k := range defs {
		switch k.Timer {
		case u.timer:
			defs[k] = &timer.Definition{Unreadable: "damaged"}
		case u.lost:
			delete(defs, k)
		}
	}
	return defs, err
}

// TestRelabelKeepsUnreadableDefinitions checks that a job replaces no definition that it cannot read.
func TestRelabelKeepsUnreadableDefinitions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		made := labelled(t, parts, 4)
		startJobs(t, parts, unreadable{parts.Store, made[1].ID, made[3].ID})
		j := startJob(t, parts.Store, store.JobRelabel, "", store.JobRequest{
			Set: map[string]string{"env": "prod"},
		})
		done := ended(t, parts.Store, j.ID)
		require.Equal(t, store.JobDone, done.Status)
		require.EqualValues(t, 2, done.Done)
		require.EqualValues(t, 2, done.Failed)
		require.Equal(t,
			store.JobError{Timer: made[1].ID, Name: "t001", Error: "damaged"}, done.Errors[0])
		require.Equal(t, "t003", done.Errors[1].Name)
		for _, i := range []int{1, 3} {
			kept, err := parts.Store.Timer(t.Context(), "a", made[i].ID)
			require.NoError(t, err)
			require.EqualValues(t, 1, kept.Version)
		}
	})
}

// TestJobsOfANewerReleaseAreLeftToIt starts jobs that this release does not know all of. It changes
// nothing and does not end them, and other jobs go on.
func TestJobsOfANewerReleaseAreLeftToIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		action  store.JobAction
		request string
		reason  string
	}{
		"action": {"archive", `{"filter":{"app":"a"}}`, `does not know the action "archive"`},
		"field of the filter": {
			store.JobDelete, `{"filter":{"app":"a","created_from_ms":5}}`, `"created_from_ms"`,
		},
		"field":  {store.JobDelete, `{"filter":{"app":"a"},"at_most":1}`, `"at_most"`},
		"status": {store.JobDelete, `{"filter":{"app":"a","status":"archived"}}`, `"archived"`},
		"operator": {
			store.JobDelete,
			`{"filter":{"app":"a","labels":[{"Name":"team","Operator":"above","Values":["1"]}]}}`,
			`"above"`,
		},
		"outcome":             {store.JobDelete, `{"filter":{"app":"a","last_outcome":"late"}}`, `"late"`},
		"deletion of the app": {store.JobDeleteApp, `{"filter":{},"keep":["keys"]}`, `"keep"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				labelled(t, parts, 20)
				startJobs(t, parts, parts.Store)
				newer, err := parts.Store.StartJob(t.Context(), store.Job{
					ID: 5, App: "a", Action: c.action, Request: []byte(c.request),
				})
				require.NoError(t, err)
				time.Sleep(time.Minute)
				newer, err = parts.Store.Job(t.Context(), "a", newer.ID)
				require.NoError(t, err)
				require.Equal(t, store.JobRunning, newer.Status, newer.Reason)
				require.Contains(t, newer.Reason, c.reason)
				require.Contains(t, newer.Reason, "finish the upgrade")
				require.Equal(t, c.action != store.JobDeleteApp,
					strings.Contains(newer.Reason, "or cancel it"))
				require.Zero(t, newer.Done)
				require.Equal(
					t,
					map[timer.Status]int{timer.StatusActive: 20},
					count(t, parts.Store),
				)
				if c.action == store.JobDeleteApp { // others are refused, and it cannot be cancelled
					return
				}
				j := startJob(t, parts.Store, store.JobPause, "team=pay", store.JobRequest{})
				require.EqualValues(t, 10, ended(t, parts.Store, j.ID).Done)
				_, err = parts.Store.CancelJob(t.Context(), "a", newer.ID)
				require.NoError(t, err)
				time.Sleep(time.Minute)
				newer, err = parts.Store.Job(t.Context(), "a", newer.ID)
				require.NoError(t, err)
				require.Equal(t, store.JobCancelled, newer.Status)
			})
		})
	}
}

// TestUnreadableJobsFail checks that a job whose request is no JSON ends.
func TestUnreadableJobsFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 1)
		startJobs(t, parts, parts.Store)
		j, err := parts.Store.StartJob(t.Context(), store.Job{
			ID: 5, App: "a", Action: store.JobDelete, Request: []byte(`{"filter":`),
		})
		require.NoError(t, err)
		require.Equal(t, store.JobFailed, ended(t, parts.Store, j.ID).Status)
		require.Equal(t, map[timer.Status]int{timer.StatusActive: 1}, count(t, parts.Store))
	})
}

// TestJobsSurviveFaults lets calls of the store fail before and after their effect.
func TestJobsSurviveFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 60)
		parts.Store.SetFaults(sqlstore.Faults{FailRead: 0.1, FailBefore: 0.1, FailAfter: 0.1})
		text, err := json.Marshal(store.JobRequest{Filter: store.Filter{App: "a"}})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, err := parts.Store.StartJob(t.Context(), store.Job{
				ID: 5, App: "a", Action: store.JobRun, Request: text,
			})
			return err == nil
		}, time.Minute, time.Second)
		st := newJobStore(parts.Store)
		startJobs(t, parts, st)
		startJobs(t, parts, st)
		time.Sleep(time.Hour)
		parts.Store.SetFaults(sqlstore.Faults{})
		done := ended(t, parts.Store, 5)
		require.Equal(t, store.JobDone, done.Status, done.Reason)
		require.EqualValues(t, 60, done.Done)
		all, err := parts.Store.List(t.Context(), store.Query{App: "a", Limit: 100})
		require.NoError(t, err)
		for i := range all {
			page, err := parts.Store.OpenFires(t.Context(), "a", all[i].ID, store.OpenFiresQuery{
				UntilMS: timer.NeverMS, ScanLimit: 500, Limit: 10,
			})
			require.NoError(t, err)
			require.Len(t, page.Fires, 1, "one fire of the job")
		}
	})
}

func TestAppsAreDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 60)
		_, err := parts.Store.PutCalendar(t.Context(), "a", timer.Calendar{Name: "c"}, 0)
		require.NoError(t, err)
		first := newJobStore(parts.Store)
		first.dieAt = 3
		j := startJob(t, parts.Store, store.JobDeleteApp, "", store.JobRequest{})
		stop := startJobs(t, parts, first)
		<-first.dead
		stop()
		app, err := parts.Store.App(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, app.Frozen)
		startJobs(t, parts, parts.Store)
		done := ended(t, parts.Store, j.ID)
		require.Equal(t, store.JobDone, done.Status, done.Reason)
		require.EqualValues(t, 60, done.Done)
		require.Empty(t, count(t, parts.Store))
		calendars, err := parts.Store.Calendars(t.Context(), "a", "", 10)
		require.NoError(t, err)
		require.Empty(t, calendars)
		app, err = parts.Store.App(t.Context(), "a")
		require.NoError(t, err)
		require.False(t, app.Frozen)
		labelled(t, parts, 2) // the names are free
	})
}

// slowRuns is a store that is far away: the transaction of a run takes long.
type slowRuns struct{ *jobStore }

func (s *slowRuns) AddFires(
	ctx context.Context, app string, id timer.ID, fires []timer.Fire,
) ([]timer.Fire, error) {
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return nil, timer.Unavailable("adding fires", ctx.Err())
	}
	return s.jobStore.AddFires(ctx, app, id, fires)
}

// TestRunsEndThoughTheStoreIsSlow checks that each page of runs has the time that it needs.
func TestRunsEndThoughTheStoreIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		labelled(t, parts, 500)
		j := startJob(t, parts.Store, store.JobRun, "", store.JobRequest{})
		st := &slowRuns{newJobStore(parts.Store)}
		startPages(t, parts, st, 0)
		time.Sleep(5 * time.Minute)
		got, err := parts.Store.Job(t.Context(), "a", j.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobDone, got.Status)
		require.Len(t, st.fires, 500)
	})
}

// largest records the largest transaction of a job.
type largest struct {
	migrator.Store

	items atomic.Int64
}

func (s *largest) SetStatus(
	ctx context.Context, items []store.StatusChange, plan store.Planner,
) ([]store.StatusResult, error) {
	s.items.Store(max(s.items.Load(), int64(len(items))))
	return s.Store.SetStatus(ctx, items, plan)
}

func (s *largest) Edit(
	ctx context.Context, items []store.Edit, plan store.Planner,
) ([]store.EditResult, error) {
	s.items.Store(max(s.items.Load(), int64(len(items))))
	return s.Store.Edit(ctx, items, plan)
}

// TestPagesOfLargeTimersAreShort checks that a transaction of a job has few bodies: on SQLite, nobody
// else writes meanwhile, and executors lose their sessions after some seconds.
func TestPagesOfLargeTimersAreShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		items := make([]store.NewTimer, 18)
		for i := range items {
			d := servicetest.Once(time.Now().Add(240*time.Hour), "https://example.com/")
			d.Target.Body = strings.Repeat("x", timer.MaxBodyLen)
			items[i] = store.NewTimer{
				App: "a", Name: fmt.Sprintf("t%03d", i), Definition: d, Activate: true,
			}
		}
		_, err := parts.Store.Create(t.Context(), items, parts.Plan)
		require.NoError(t, err)
		st := &largest{Store: parts.Store}
		startPages(t, parts, st, 0)
		labels := store.JobRequest{Set: map[string]string{"team": "pay"}}
		for _, action := range []store.JobAction{store.JobRelabel, store.JobPause, store.JobDeleteApp} {
			st.items.Store(0)
			j := ended(t, parts.Store, startJob(t, parts.Store, action, "", labels).ID)
			require.EqualValues(t, len(items), j.Done, action)
			require.Positive(t, st.items.Load(), action)
			require.LessOrEqual(t, st.items.Load(), int64(16), action) // 4 MB of bodies
		}
	})
}
