package storetest

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// startJob begins a job of the app "app".
func (s *setup) startJob(action store.JobAction, request string) store.Job {
	s.t.Helper()
	j, err := s.st().StartJob(s.t.Context(), store.Job{
		ID: s.ids.Next(), App: "app", Action: action, Request: []byte(request), Total: 3,
		AtLeast: true,
	})
	require.NoError(s.t, err)
	return j
}

// leaseJob leases the job that is next.
func (s *setup) leaseJob(lease time.Duration) store.Job {
	s.t.Helper()
	j, ok, err := s.st().LeaseJob(s.t.Context(), lease)
	require.NoError(s.t, err)
	require.True(s.t, ok)
	return j
}

// advanceJob writes progress and returns whether it counted.
func (s *setup) advanceJob(j store.Job) bool {
	s.t.Helper()
	ok, err := s.st().AdvanceJob(s.t.Context(), j)
	require.NoError(s.t, err)
	return ok
}

// job reads a job of the app "app".
func (s *setup) job(id timer.ID) store.Job {
	s.t.Helper()
	j, err := s.st().Job(s.t.Context(), "app", id)
	require.NoError(s.t, err)
	return j
}

func jobsAreKept(t *testing.T, s *setup) {
	ctx := t.Context()
	_, err := s.st().StartJob(ctx, store.Job{ID: 7, App: "none", Action: store.JobPause})
	requireCode(t, timer.CodeNotFound, err)
	s.create(s.newTimer(), noFires)
	j := s.startJob(store.JobPause, `{"all":true}`)
	require.Equal(t, store.JobRunning, j.Status)
	require.EqualValues(t, 3, j.Total)
	require.True(t, j.AtLeast)
	require.InDelta(t, s.nowMS(), j.CreatedMS, 10_000)
	again, err := s.st().StartJob(ctx, store.Job{
		ID: j.ID, App: "app", Action: store.JobPause, Request: []byte(`{"all":true}`), Total: 99,
	})
	require.NoError(t, err)
	require.Equal(t, j, again, "repeated, it changes nothing")
	for _, other := range []store.Job{
		{ID: j.ID, App: "app", Action: store.JobResume, Request: []byte(`{"all":true}`)},
		{ID: j.ID, App: "app", Action: store.JobPause, Request: []byte(`{}`)},
	} {
		_, err = s.st().StartJob(ctx, other)
		requireCode(t, timer.CodeConflict, err)
	}
	for _, read := range []func() error{
		func() error { _, err := s.st().Job(ctx, "other", j.ID); return err },
		func() error { _, err := s.st().CancelJob(ctx, "other", j.ID); return err },
		func() error { _, err := s.st().Job(ctx, "app", j.ID+1); return err },
	} {
		requireCode(t, timer.CodeNotFound, read())
	}

	var ids []timer.ID
	for range store.MaxRunningJobs - 1 {
		ids = append(ids, s.startJob(store.JobRun, "").ID)
	}
	_, err = s.st().StartJob(ctx, store.Job{ID: s.ids.Next(), App: "app", Action: store.JobRun})
	requireCode(t, timer.CodeConflict, err)
	n, oldest, err := s.st().JobBacklog(ctx, 5)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.Equal(t, j.CreatedMS, oldest)
	jobs, err := s.st().Jobs(ctx, "app", 0, 5)
	require.NoError(t, err)
	slices.Reverse(ids)
	require.Len(t, jobs, 5)
	require.Equal(t, ids[0], jobs[0].ID, "latest first")
	jobs, err = s.st().Jobs(ctx, "app", ids[len(ids)-1], 5)
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.Equal(t, j, jobs[0])
	jobs, err = s.st().Jobs(ctx, "other", 0, 5)
	require.NoError(t, err)
	require.Empty(t, jobs)
}

func jobsTakeTurns(t *testing.T, s *setup) {
	s.create(s.newTimer(), noFires)
	a, b := s.startJob(store.JobPause, "a"), s.startJob(store.JobPause, "b")
	var turns []timer.ID
	later := func() {
		at := s.nowMS()
		require.Eventually(t, func() bool { return s.nowMS() > at }, time.Second, time.Millisecond)
	}
	later()
	for i := range int64(6) {
		j := s.leaseJob(time.Minute)
		turns = append(turns, j.ID)
		j.Page, j.PageMS, j.After = []timer.ID{5, 7}, 1000+i, timer.ID(i)
		j.Done, j.Failed = j.Done+1, j.Failed+2
		j.Errors = append(j.Errors, store.JobError{Timer: 5, Name: "n", Error: "no"})
		require.True(t, s.advanceJob(j))
		require.True(t, s.advanceJob(j), "repeated, it writes the same")
		later()
	}
	require.ElementsMatch(t, []timer.ID{a.ID, a.ID, a.ID, b.ID, b.ID, b.ID}, turns)
	require.NotEqual(t, turns[0], turns[1], "a job that waited longer is next")
	got := s.job(a.ID)
	require.Equal(t, []timer.ID{5, 7}, got.Page)
	require.EqualValues(t, 3, got.Done)
	require.EqualValues(t, 6, got.Failed)
	require.Len(t, got.Errors, 3)
	require.Equal(t, store.JobError{Timer: 5, Name: "n", Error: "no"}, got.Errors[0])
	require.Positive(t, got.PageMS)
	j := s.leaseJob(time.Minute)
	j.Status, j.Reason, j.Page = store.JobFailed, "broken", nil
	require.True(t, s.advanceJob(j))
	require.False(t, s.advanceJob(j), "it has ended")
	got = s.job(j.ID)
	require.Equal(t, store.JobFailed, got.Status)
	require.Equal(t, "broken", got.Reason)
	require.NotZero(t, got.FinishedMS)
	require.Empty(t, got.Page)
	require.NotEqual(t, j.ID, s.leaseJob(time.Minute).ID)
	_, ok, err := s.st().LeaseJob(t.Context(), time.Minute)
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, s.st().PurgeExpired(t.Context(), time.Hour))
	s.job(j.ID)
	require.NoError(t, s.st().PurgeExpired(t.Context(), -time.Hour))
	_, err = s.st().Job(t.Context(), "app", j.ID)
	requireCode(t, timer.CodeNotFound, err)
}

func jobLeasesRunOut(t *testing.T, s *setup) {
	s.create(s.newTimer(), noFires)
	s.startJob(store.JobPause, "")
	first := s.leaseJob(20 * time.Millisecond)
	first.Done = 1
	var second store.Job
	require.Eventually(t, func() bool {
		j, ok, err := s.st().LeaseJob(t.Context(), time.Minute)
		second = j
		return err == nil && ok
	}, 5*time.Second, time.Millisecond)
	require.Greater(t, second.Token, first.Token)
	require.Zero(t, second.Done)
	require.False(t, s.advanceJob(first), "its lease has expired")
	require.Zero(t, s.job(first.ID).Done)
	second.Done = 2
	require.True(t, s.advanceJob(second))
	require.EqualValues(t, 2, s.job(first.ID).Done)
}

func concurrentJobLeases(t *testing.T, s *setup) {
	s.create(s.newTimer(), noFires)
	for i := range 10 {
		s.startJob(store.JobPause, strconv.Itoa(i))
	}
	var mu sync.Mutex
	leased := map[timer.ID]int{}
	s.together(30, func(ctx context.Context, _ int, st store.Store) error {
		j, ok, err := st.LeaseJob(ctx, time.Minute)
		if ok {
			mu.Lock()
			defer mu.Unlock()
			leased[j.ID]++
		}
		return err
	})
	for { // calls at once may skip a job that another one has locked and then leaves
		j, ok, err := s.st().LeaseJob(t.Context(), time.Minute)
		require.NoError(t, err)
		if !ok {
			break
		}
		leased[j.ID]++
	}
	require.Len(t, leased, 10)
	for id, n := range leased {
		require.Equal(t, 1, n, "job %d", id)
	}
}

func cancelledJobsEnd(t *testing.T, s *setup) {
	ctx := t.Context()
	s.create(s.newTimer(), noFires)
	j := s.startJob(store.JobPause, "")
	leased := s.leaseJob(time.Minute)
	cancelled, err := s.st().CancelJob(ctx, "app", j.ID)
	require.NoError(t, err)
	require.Equal(t, store.JobCancelled, cancelled.Status)
	again, err := s.st().CancelJob(ctx, "app", j.ID)
	require.NoError(t, err)
	require.Equal(t, cancelled, again)
	leased.Done, leased.Status = 2, store.JobDone
	require.True(t, s.advanceJob(leased), "the page that was under way counts")
	got := s.job(j.ID)
	require.Equal(t, store.JobCancelled, got.Status)
	require.EqualValues(t, 2, got.Done)
	require.Equal(t, cancelled.FinishedMS, got.FinishedMS)
	_, ok, err := s.st().LeaseJob(ctx, 0)
	require.NoError(t, err)
	require.False(t, ok)
}

func deletedAppsTakeNothing(t *testing.T, s *setup) {
	ctx := t.Context()
	made := s.create(s.newTimer(), noFires).Timer
	other := s.startJob(store.JobPause, "")
	since, err := s.st().LastChange(ctx)
	require.NoError(t, err)
	j := s.startJob(store.JobDeleteApp, "")
	require.Equal(t, store.JobCancelled, s.job(other.ID).Status)
	changes, err := s.st().Changes(ctx, since, 10)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.True(t, changes[0].Frozen)
	app, err := s.st().App(ctx, "app")
	require.NoError(t, err)
	require.True(t, app.Frozen)
	require.Equal(t, j.ID, app.Deleting)
	require.Equal(t, j.ID, s.startJob(store.JobDeleteApp, "").ID, "one at a time")
	_, err = s.st().CancelJob(ctx, "app", j.ID)
	requireCode(t, timer.CodeConflict, err)

	mine, theirs := s.newTimer(), s.newTimer()
	theirs.App = "other"
	same := store.NewTimer{App: "app", Name: made.Name, Definition: made.Definition}
	out, err := s.st().Create(ctx, []store.NewTimer{mine, theirs, same}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeConflict, out[0].Err)
	require.NoError(t, out[1].Err)
	requireCode(t, timer.CodeConflict, out[2].Err)
	for name, call := range map[string]func() error{
		"unfreeze": func() error { _, err := s.st().SetFrozen(ctx, "app", false, ""); return err },
		"settings": func() error {
			_, err := s.st().PutSettings(ctx, "app", store.AppSettings{Rate: 1}, 0)
			return err
		},
		"calendar": func() error {
			_, err := s.st().PutCalendar(ctx, "app", timer.Calendar{Name: "c"}, 0)
			return err
		},
		"API key": func() error {
			return s.st().AddAPIKey(ctx, store.APIKey{
				ID: "k", App: "app", Scope: "read", Hash: []byte("h"),
			})
		},
		"signing key": func() error {
			return s.st().AddSigningKey(ctx, "app", store.SigningKey{ID: 5, Kind: "hmac"})
		},
		"job": func() error {
			_, err := s.st().StartJob(ctx, store.Job{ID: 5, App: "app", Action: store.JobRun})
			return err
		},
	} {
		t.Log(name)
		requireCode(t, timer.CodeConflict, call())
	}
}

func deletedAppsAreCleared(t *testing.T, s *setup) {
	ctx := t.Context()
	n := s.newTimer()
	n.IdempotencyKey, n.RequestHash = "key", []byte("h")
	s.create(n, noFires)
	_, err := s.st().PutIfAbsent(ctx, "app", "k", nil, 7)
	require.NoError(t, err)
	for _, app := range []string{"app", "other"} {
		_, err := s.st().PutSettings(ctx, app, store.AppSettings{Rate: 5}, 0)
		require.NoError(t, err)
		_, err = s.st().PutCalendar(ctx, app, timer.Calendar{Name: "c"}, 0)
		require.NoError(t, err)
		require.NoError(t, s.st().AddAPIKey(ctx, store.APIKey{
			ID: "of-" + app, App: app, Scope: "read", Hash: []byte("h"),
		}))
		require.NoError(t, s.st().AddSigningKey(ctx, app, store.SigningKey{
			ID: s.ids.Next(), Kind: "hmac", Secret: "s",
		}))
	}
	_, err = s.st().ClearApp(ctx, "app")
	requireCode(t, timer.CodeConflict, err)
	s.startJob(store.JobDeleteApp, "")
	for range 2 {
		more, err := s.st().ClearApp(ctx, "app")
		require.NoError(t, err)
		require.False(t, more)
	}
	for app, want := range map[string]int{"app": 0, "other": 1} {
		calendars, err := s.st().Calendars(ctx, app, "", 10)
		require.NoError(t, err)
		require.Len(t, calendars, want)
		keys, err := s.st().APIKeys(ctx, app)
		require.NoError(t, err)
		require.Len(t, keys, want)
		signing, err := s.st().SigningKeys(ctx, app)
		require.NoError(t, err)
		require.Len(t, signing, want)
	}
	kept, err := s.st().PutIfAbsent(ctx, "app", "k", nil, 8)
	require.NoError(t, err)
	require.EqualValues(t, 8, kept)
	j := s.leaseJob(time.Minute)
	j.Status = store.JobDone
	require.True(t, s.advanceJob(j))
	app, err := s.st().App(ctx, "app")
	require.NoError(t, err)
	require.False(t, app.Frozen)
	require.Zero(t, app.Deleting)
	require.Zero(t, app.Settings.Rate)
	require.EqualValues(t, 2, app.Version)
	s.create(s.newTimer(), noFires)
}

// concurrentDeletion creates timers while the app is marked. Each is refused, or is there when the
// mark is.
func concurrentDeletion(t *testing.T, s *setup) {
	s.create(s.newTimer(), noFires)
	var mu sync.Mutex
	created := map[timer.ID]bool{}
	seen := map[timer.ID]bool{}
	items := make([]store.NewTimer, 40)
	for i := range items {
		items[i] = s.newTimer()
	}
	s.together(len(items), func(ctx context.Context, i int, st store.Store) error {
		if i == len(items)/2 {
			_, err := st.StartJob(ctx, store.Job{
				ID: s.ids.Next(), App: "app", Action: store.JobDeleteApp,
			})
			if err != nil {
				return err
			}
			all, err := st.List(ctx, store.Query{App: "app", Limit: 100})
			for i := range all {
				seen[all[i].ID] = true
			}
			return err
		}
		out, err := st.Create(ctx, items[i:i+1], noFires)
		if err != nil {
			return err
		}
		if out[0].Err != nil {
			requireCode(t, timer.CodeConflict, out[0].Err)
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		created[out[0].Timer.ID] = true
		return nil
	})
	for id := range created {
		require.True(t, seen[id], "timer %d was created after the mark", id)
	}
}
