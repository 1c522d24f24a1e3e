package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// trail returns the entries that match, the latest first, read by pages.
func (s *setup) trail(q store.AuditQuery) (all []store.AuditEntry) {
	s.t.Helper()
	if q.App == "" {
		q.App = "app"
	}
	q.Limit, q.ScanLimit = max(q.Limit, 1), max(q.ScanLimit, 3)
	for range 10_000 {
		page, err := s.st().AuditTrail(s.t.Context(), q)
		require.NoError(s.t, err)
		require.LessOrEqual(s.t, len(page.Entries), q.Limit)
		all = append(all, page.Entries...)
		if page.Next == 0 {
			return all
		}
		require.True(s.t, q.Before == 0 || page.Next < q.Before, "pages go on")
		q.Before = page.Next
	}
	s.t.Fatal("the pages have no end")
	return nil
}

// did names the entries of a trail, the earliest first.
func did(entries []store.AuditEntry) (out []string) {
	for _, e := range slices.Backward(entries) {
		out = append(out, fmt.Sprintf("%s %s", e.Action, e.Kind))
	}
	return out
}

func testActor(id string) *store.Actor {
	return &store.Actor{
		Kind: store.ActorKey, ID: id, Name: "of the tests", Address: "10.0.0.7", Request: "r1",
	}
}

// changesAreInTheTrail makes each change twice: the second changes nothing and adds nothing.
func changesAreInTheTrail(t *testing.T, s *setup) {
	st := s.st()
	by := testActor("k1")
	ctx := store.WithActor(t.Context(), by)
	nowMS := s.nowMS()
	n := s.newTimer()
	n.By = by
	var made timer.Timer
	redo := func(call func() error) {
		t.Helper()
		require.NoError(t, call())
		had := s.trail(store.AuditQuery{})
		require.NoError(t, call())
		require.Equal(t, had, s.trail(store.AuditQuery{}), "the same again changes nothing")
	}
	redo(func() error {
		out, err := st.Create(t.Context(), []store.NewTimer{n}, noFires)
		made = out[0].Timer
		return err
	})
	status := func(to timer.Status) {
		t.Helper()
		redo(func() error {
			item := store.StatusChange{App: n.App, ID: made.ID, Status: to, Reason: "why", By: by}
			_, err := st.SetStatus(t.Context(), []store.StatusChange{item}, noFires)
			return err
		})
	}
	status(timer.StatusActive)
	status(timer.StatusPaused)
	status(timer.StatusActive)
	redo(func() error {
		item := store.Edit{App: n.App, ID: made.ID, Definition: definition("http://b")}
		_, err := st.Edit(ctx, []store.Edit{item}, noFires)
		return err
	})
	redo(func() error {
		fire := timer.Fire{FireID: timer.FireID{Timer: made.ID, DueMS: nowMS, Series: 9}}
		_, err := st.AddFires(ctx, n.App, made.ID, []timer.Fire{fire})
		return err
	})
	status(timer.StatusInactive)
	status(timer.StatusDeleted)
	got := s.trail(store.AuditQuery{})
	require.Equal(t, []string{
		"create timer", "activate timer", "pause timer", "resume timer", "update timer",
		"run timer", "deactivate timer", "delete timer",
	}, did(got))
	for _, e := range got {
		require.Equal(t, *by, e.By)
		require.Equal(t, "app", e.App)
		require.Equal(t, made.ID.String(), e.Resource)
		require.Equal(t, n.Name, e.Name)
		require.InDelta(t, nowMS, e.AtMS, 60_000)
	}
	create, edit, pause, deleted := got[7], got[3], got[5], got[0]
	require.Equal(t, []int32{0, 1}, []int32{create.BeforeVersion, create.AfterVersion})
	require.JSONEq(t, `{"status":"inactive"}`, string(create.After))
	require.Equal(t, []int32{1, 2}, []int32{edit.BeforeVersion, edit.AfterVersion})
	require.JSONEq(t, `{"status":"active"}`, string(pause.Before))
	require.JSONEq(t, `{"status":"paused","reason":"why"}`, string(pause.After))
	require.Equal(t, []int32{2, 0}, []int32{deleted.BeforeVersion, deleted.AfterVersion})
	require.Empty(t, deleted.After)
	s.appChangesAreInTheTrail(ctx, redo)
}

// appChangesAreInTheTrail changes what an app has besides timers.
func (s *setup) appChangesAreInTheTrail(ctx context.Context, redo func(func() error)) {
	t, st := s.t, s.st()
	t.Helper()
	since := s.trail(store.AuditQuery{})[0].Seq
	redo(func() error { _, err := st.SetFrozen(ctx, "app", true, "a"); return err })
	redo(func() error { _, err := st.SetFrozen(ctx, "app", true, "b"); return err })
	redo(func() error { _, err := st.SetFrozen(ctx, "app", false, ""); return err })
	for _, rate := range []float64{7, 8} {
		redo(func() error {
			_, err := st.PutSettings(ctx, "app", store.AppSettings{Rate: rate}, 0)
			return err
		})
	}
	for _, day := range []string{"mon", "tue"} {
		c := timer.Calendar{Name: "days", ExcludedWeekdays: []string{day}}
		redo(func() error { _, err := st.PutCalendar(ctx, "app", c, 0); return err })
	}
	require.NoError(t, st.DeleteCalendar(ctx, "app", "days"))
	key := store.APIKey{ID: "k", App: "app", Name: "n", Scope: "read", Hash: []byte("secret hash")}
	redo(func() error { return st.AddAPIKey(ctx, key) })
	redo(func() error { return st.RevokeAPIKey(ctx, "app", "k") })
	signing := store.SigningKey{ID: 5, Kind: "hmac", Secret: "cs1.secret"}
	redo(func() error { return st.AddSigningKey(ctx, "app", signing) })
	require.NoError(t, st.RetireSigningKey(ctx, "app", 5))

	n := s.newTimer()
	made := s.create(n, noFires).Timer // nobody's
	b := store.Backfill{ID: s.ids.Next(), App: "app", Timer: made.ID, FromMS: 1, ToMS: 2}
	redo(func() error { _, err := st.StartBackfill(ctx, b); return err })
	redo(func() error { _, err := st.CancelBackfill(ctx, "app", b.ID); return err })
	j := store.Job{ID: s.ids.Next(), App: "app", Action: store.JobPause, Request: []byte(`{}`)}
	redo(func() error { _, err := st.StartJob(ctx, j); return err })
	redo(func() error { _, err := st.CancelJob(ctx, "app", j.ID); return err })
	session := s.session()
	s.failed(session, s.claim(session, s.fires(3, s.nowMS())), s.nowMS())
	redo(func() error {
		_, err := st.Redrive(ctx, store.DeadLetterQuery{App: "app", Series: 77})
		return err
	})

	got := s.trail(store.AuditQuery{})
	got = slices.DeleteFunc(got, func(e store.AuditEntry) bool { return e.Seq <= since })
	require.Equal(t, []string{
		"freeze app", "freeze app", "unfreeze app", "update settings", "update settings",
		"create calendar", "update calendar", "delete calendar", "create api_key", "delete api_key",
		"create signing_key", "delete signing_key", "create backfill", "cancel backfill",
		"create job", "cancel job", "create redrive",
	}, did(got))
	slices.Reverse(got)
	require.JSONEq(t, `{"frozen":true,"reason":"a"}`, string(got[1].Before))
	require.JSONEq(t, `{"frozen":true,"reason":"b"}`, string(got[1].After))
	require.JSONEq(t, `{"rate":7}`, string(got[4].Before))
	require.JSONEq(t, `{"rate":8}`, string(got[4].After))
	require.Empty(t, got[5].Before)
	require.Equal(t, got[5].After, got[6].Before)
	require.Contains(t, string(got[6].After), "tue")
	require.Empty(t, got[7].After)
	require.JSONEq(t, `{"name":"n","scope":"read"}`, string(got[9].Before))
	require.JSONEq(t, `{"outcomes":3}`, string(got[16].After))
	for _, e := range got {
		require.NotContains(t, string(e.Before)+string(e.After), "secret")
	}
}

// othersAreNotInTheTrail checks what adds no entry: no actor, a refusal, a dry run.
func othersAreNotInTheTrail(t *testing.T, s *setup) {
	st := s.st()
	ctx := store.WithActor(t.Context(), testActor("k1"))
	made := s.create(s.newTimer(), noFires).Timer
	s.setStatus(made, timer.StatusActive, noFires)
	require.Empty(t, s.trail(store.AuditQuery{}), "nobody's")

	n := store.NewTimer{App: "app", Name: made.Name, Definition: definition("http://c")}
	out, err := st.Create(ctx, []store.NewTimer{n}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeConflict, out[0].Err)
	edited, err := st.Edit(ctx, []store.Edit{
		{App: "app", ID: made.ID, IfVersion: 9, Definition: definition("http://c")},
		{App: "other", ID: made.ID, Definition: definition("http://c")},
	}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeConflict, edited[0].Err)
	requireCode(t, timer.CodeNotFound, edited[1].Err)
	changed, err := st.SetStatus(ctx, []store.StatusChange{{
		App: "app", ID: made.ID, Status: timer.StatusDeleted, IfVersion: 9,
	}}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeConflict, changed[0].Err)
	_, err = st.PutSettings(ctx, "app", store.AppSettings{Rate: 1}, 9)
	requireCode(t, timer.CodeConflict, err)
	requireCode(t, timer.CodeNotFound, st.RevokeAPIKey(ctx, "app", "none"))
	require.Empty(t, s.trail(store.AuditQuery{}), "refused")
	if s.NoDryRuns {
		return
	}
	dry := store.WithDryRun(ctx)
	n.Name = "new"
	_, err = st.Create(dry, []store.NewTimer{n}, noFires)
	require.NoError(t, err)
	_, err = st.PutSettings(dry, "app", store.AppSettings{Rate: 1}, 0)
	require.NoError(t, err)
	_, err = st.PutCalendar(dry, "app", timer.Calendar{Name: "days"}, 0)
	require.NoError(t, err)
	require.Empty(t, s.trail(store.AuditQuery{}), "dry runs")
}

// addedEntries adds entries about what changes nothing, for an app that exists or not.
func addedEntries(t *testing.T, s *setup) {
	st := s.st()
	by := testActor("k1")
	ctx := store.WithActor(t.Context(), by)
	targets := []store.TestedTarget{{Kind: timer.KindHTTP, Endpoint: "example.com"}}
	e, err := store.AuditTestCalled(17, "bill", targets)
	require.NoError(t, err)
	require.NoError(t, st.AddAudit(t.Context(), "app", e))
	require.Empty(t, s.trail(store.AuditQuery{}), "nobody's")
	require.NoError(t, st.AddAudit(ctx, "app", e))
	require.NoError(t, st.AddAudit(ctx, "app", e))
	require.NoError(t, st.AddAudit(ctx, "new", e))
	got := s.trail(store.AuditQuery{Kind: store.AuditTimer, Resource: "17"})
	require.Equal(t, []string{"test timer", "test timer"}, did(got), "each call is one")
	require.Equal(t, *by, got[0].By)
	require.Equal(t, "bill", got[0].Name)
	require.Empty(t, got[0].Before)
	require.JSONEq(
		t, `{"targets":[{"kind":"http","endpoint":"example.com"}]}`, string(got[0].After),
	)
	require.Len(t, s.trail(store.AuditQuery{App: "new"}), 1)
}

// completionsAreInTheTrail completes fires, each twice.
func completionsAreInTheTrail(t *testing.T, s *setup) {
	by := &store.Actor{Kind: store.ActorToken, Address: "10.0.0.7", Request: "r1"}
	ctx := store.WithActor(t.Context(), by)
	session := s.session()
	fires := s.claim(session, s.fires(3, s.nowMS()))
	for i, failed := range []bool{false, true} {
		c := completed(s.accepted(session, fires[i]))
		if c.Name = "bill"; failed {
			c.Failed = &timer.Attempt{Failure: timer.FailureAsync, Error: "out of paper"}
		}
		for range 2 {
			_, err := s.st().Complete(ctx, "app", c)
			require.NoError(t, err)
		}
	}
	late := completed(s.accepted(session, fires[2]))
	late.Attempt = 0
	_, err := s.st().Complete(ctx, "app", late)
	require.NoError(t, err)
	got := s.trail(store.AuditQuery{})
	require.Equal(t, []string{"complete fire", "complete fire"}, did(got))
	require.Equal(t, *by, got[1].By)
	require.Equal(t, fires[0].FireID.String(), got[1].Resource)
	require.Equal(t, "bill", got[1].Name)
	require.JSONEq(t, `{"status":"delivered","attempt":1}`, string(got[1].After))
	require.JSONEq(t, `{"status":"failed","attempt":1}`, string(got[0].After))
}

// itemsHaveTheirActors gives the items of one call different actors.
func itemsHaveTheirActors(t *testing.T, s *setup) {
	const items = 5
	ctx := store.WithActor(t.Context(), testActor("context"))
	creates := make([]store.NewTimer, items)
	for i := range creates {
		creates[i] = s.newTimer()
		if i > 0 {
			creates[i].By = testActor(fmt.Sprint("k", i))
		}
	}
	creates[0].App = "other"
	out, err := s.st().Create(ctx, creates, noFires)
	require.NoError(t, err)
	changes := make([]store.StatusChange, items)
	for i := range changes {
		require.NoError(t, out[i].Err)
		changes[i] = store.StatusChange{
			App: creates[i].App, ID: out[i].Timer.ID, Status: timer.StatusActive, By: creates[i].By,
		}
	}
	_, err = s.st().SetStatus(ctx, changes, noFires)
	require.NoError(t, err)
	other := s.trail(store.AuditQuery{App: "other"})
	require.Len(t, other, 2)
	require.Equal(t, "context", other[0].By.ID)
	for i := 1; i < items; i++ {
		q := store.AuditQuery{Actor: creates[i].By.ID}
		require.Equal(t, []string{"create timer", "activate timer"}, did(s.trail(q)))
		q = store.AuditQuery{Kind: store.AuditTimer, Resource: out[i].Timer.ID.String()}
		require.Equal(t, []string{"create timer", "activate timer"}, did(s.trail(q)))
	}
}

// manyCreatesOfOneActor creates more timers than one statement takes, some of them active.
func manyCreatesOfOneActor(t *testing.T, s *setup) {
	by := testActor("k1")
	creates := make([]store.NewTimer, 2*store.MaxBatch+20)
	for i := range creates {
		creates[i] = s.newTimer()
		creates[i].Activate, creates[i].By = i%3 == 0, by
	}
	out, err := s.st().Create(t.Context(), creates, noFires)
	require.NoError(t, err)
	byID := map[string]store.AuditEntry{}
	got := s.trail(store.AuditQuery{Limit: 700, ScanLimit: 2000})
	for _, e := range got {
		byID[e.Resource] = e
	}
	require.Len(t, got, len(creates))
	require.Len(t, byID, len(creates))
	for i := range out {
		require.NoError(t, out[i].Err)
		made := out[i].Timer
		e := byID[made.ID.String()]
		want := store.AuditEntry{
			Seq: e.Seq, AtMS: made.CreatedMS, App: "app", By: *by,
			Action: store.AuditCreate, Kind: store.AuditTimer,
			Resource: made.ID.String(), Name: made.Name, AfterVersion: 1,
			After: []byte(`{"status":"` + string(made.Status) + `"}`),
		}
		if s.NoDryRuns { // memstore reads the clock again
			want.AtMS = e.AtMS
		}
		require.Equal(t, want, e)
	}
}

func entriesAreSelected(t *testing.T, s *setup) {
	ctx := store.WithActor(t.Context(), testActor("k1"))
	var made []timer.Timer
	for range 12 {
		out, err := s.st().Create(ctx, []store.NewTimer{s.newTimer()}, noFires)
		require.NoError(t, err)
		made = append(made, out[0].Timer)
	}
	ctx = store.WithActor(t.Context(), testActor("k2"))
	for i := range made[:4] {
		_, err := s.st().SetStatus(ctx, []store.StatusChange{
			{App: "app", ID: made[i].ID, Status: timer.StatusActive},
		}, noFires)
		require.NoError(t, err)
	}
	_, err := s.st().PutSettings(ctx, "app", store.AppSettings{Rate: 1}, 0)
	require.NoError(t, err)
	all := s.trail(store.AuditQuery{Limit: 100, ScanLimit: 100})
	require.Len(t, all, 17)
	require.True(t, slices.IsSortedFunc(all, func(a, b store.AuditEntry) int {
		return int(b.Seq - a.Seq)
	}))
	at := all[8].AtMS
	third := made[3]
	for name, c := range map[string]struct {
		q    store.AuditQuery
		want func(e *store.AuditEntry) bool
	}{
		"all":   {store.AuditQuery{}, func(*store.AuditEntry) bool { return true }},
		"actor": {store.AuditQuery{Actor: "k2"}, func(e *store.AuditEntry) bool { return e.By.ID == "k2" }},
		"kind": {store.AuditQuery{Kind: store.AuditSettings}, func(e *store.AuditEntry) bool {
			return e.Kind == store.AuditSettings
		}},
		"action": {store.AuditQuery{Action: store.AuditActivate}, func(e *store.AuditEntry) bool {
			return e.Action == store.AuditActivate
		}},
		"name": {store.AuditQuery{Name: third.Name}, func(e *store.AuditEntry) bool {
			return e.Name == third.Name
		}},
		"resource": {
			store.AuditQuery{Kind: store.AuditTimer, Resource: third.ID.String()},
			func(e *store.AuditEntry) bool { return e.Resource == third.ID.String() },
		},
		"both": {
			store.AuditQuery{
				Kind: store.AuditTimer, Resource: third.ID.String(), Actor: "k2", FromMS: 1,
			},
			func(e *store.AuditEntry) bool {
				return e.Resource == third.ID.String() && e.By.ID == "k2"
			},
		},
		"from": {store.AuditQuery{FromMS: at}, func(e *store.AuditEntry) bool { return e.AtMS >= at }},
		"to":   {store.AuditQuery{ToMS: at}, func(e *store.AuditEntry) bool { return e.AtMS < at }},
		"none": {store.AuditQuery{Actor: "k3"}, func(*store.AuditEntry) bool { return false }},
		"of no app": {
			store.AuditQuery{App: "nobody"}, func(*store.AuditEntry) bool { return false },
		},
	} {
		var want []store.AuditEntry
		for i := range all {
			if c.want(&all[i]) {
				want = append(want, all[i])
			}
		}
		for _, page := range [][2]int{{1, 1}, {2, 3}, {5, 4}, {100, 100}} {
			c.q.Limit, c.q.ScanLimit = page[0], page[1]
			require.Equal(t, want, s.trail(c.q), "%s %v", name, page)
		}
	}
}

// concurrentAuditedChanges compares the trail with what the calls say that they changed.
func concurrentAuditedChanges(t *testing.T, s *setup) {
	const calls = 32
	n := s.newTimer()
	s.together(calls, func(ctx context.Context, i int, st store.Store) error {
		ctx = store.WithActor(ctx, testActor(fmt.Sprint("k", i)))
		_, err := st.Create(ctx, []store.NewTimer{n}, noFires)
		return err //nolint:wrapcheck // the test tells it
	})
	made, err := s.st().TimerByName(t.Context(), n.App, n.Name)
	require.NoError(t, err)
	require.Equal(t, []string{"create timer"}, did(s.trail(store.AuditQuery{})), "one wins")
	changed := make([]int, calls)
	s.together(calls, func(ctx context.Context, i int, st store.Store) error {
		ctx = store.WithActor(ctx, testActor(fmt.Sprint("k", i)))
		to := timer.StatusActive
		if i%2 == 0 {
			to = timer.StatusInactive
		}
		done, err := st.SetStatus(
			ctx, []store.StatusChange{{App: n.App, ID: made.ID, Status: to}}, noFires,
		)
		if err == nil && done[0].Seq != 0 {
			changed[i] = 1
		}
		return err //nolint:wrapcheck // as above
	})
	for i := range changed {
		q := store.AuditQuery{Actor: fmt.Sprint("k", i), Limit: 100, ScanLimit: 100}
		got := slices.DeleteFunc(s.trail(q), func(e store.AuditEntry) bool {
			return e.Action == store.AuditCreate
		})
		require.Len(t, got, changed[i])
	}
	// Each entry begins where the one before it ended.
	was := `{"status":"inactive"}`
	for _, e := range slices.Backward(s.trail(store.AuditQuery{Limit: 100, ScanLimit: 100})) {
		if e.Action != store.AuditCreate {
			require.JSONEq(t, was, string(e.Before))
		}
		was = string(e.After)
	}
	s.together(calls, func(ctx context.Context, _ int, st store.Store) error {
		ctx = store.WithActor(ctx, testActor("b"))
		_, err := st.StartBackfill(ctx, store.Backfill{
			ID: 5, App: n.App, Timer: made.ID, FromMS: 1, ToMS: 2,
		})
		if err == nil {
			_, err = st.CancelBackfill(ctx, n.App, 5)
		}
		return err //nolint:wrapcheck // as above
	})
	require.Equal(t, []string{"create backfill", "cancel backfill"},
		did(s.trail(store.AuditQuery{Actor: "b", Limit: 100, ScanLimit: 100})))
}

func jobsKeepTheirActor(t *testing.T, s *setup) {
	by := testActor("k1")
	ctx := store.WithActor(t.Context(), by)
	s.create(s.newTimer(), noFires)
	var pauses []string
	for range 2 {
		p, err := s.st().StartJob(ctx, store.Job{
			ID: s.ids.Next(), App: "app", Action: store.JobPause, Request: []byte(`{}`),
		})
		require.NoError(t, err)
		pauses = append(pauses, p.ID.String())
	}
	j, err := s.st().StartJob(ctx, store.Job{
		ID: s.ids.Next(), App: "app", Action: store.JobDeleteApp, Request: []byte(`{}`),
	})
	require.NoError(t, err)
	require.Equal(t, by, j.By)
	again, err := s.st().StartJob(t.Context(), store.Job{
		ID: j.ID, App: "app", Action: store.JobDeleteApp, Request: []byte(`{}`),
	})
	require.NoError(t, err)
	require.Equal(t, by, again.By, "of the first")
	leased := s.leaseJob(time.Minute)
	require.Equal(t, by, leased.By)
	leased.Status = store.JobDone
	require.True(t, s.advanceJob(leased))
	got := s.trail(store.AuditQuery{})
	require.Equal(t, []string{
		"create job", "create job", "cancel job", "cancel job", "create job", "delete app",
	}, did(got))
	require.ElementsMatch(t, pauses, []string{got[2].Resource, got[3].Resource})
	require.Equal(t, "k1", got[2].By.ID)
	require.Equal(t, "k1", got[0].By.ID)
	require.Equal(t, j.ID, got[0].By.Job)
}

func oldEntriesAreRemoved(t *testing.T, s *setup) {
	ctx := store.WithActor(t.Context(), testActor("k1"))
	_, err := s.st().Create(ctx, []store.NewTimer{s.newTimer()}, noFires)
	require.NoError(t, err)
	first := s.trail(store.AuditQuery{})
	require.Len(t, first, 1)
	s.until(first[0].AtMS + 50)
	_, err = s.st().Create(ctx, []store.NewTimer{s.newTimer()}, noFires)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, s.st().PurgeAudit(ctx, time.Hour))
		require.Len(t, s.trail(store.AuditQuery{}), 2)
	}
	second := s.trail(store.AuditQuery{})[0]
	for range 100 {
		age := s.nowMS() - second.AtMS + 10 // the second is younger, unless the call takes longer
		require.NoError(t, s.st().PurgeAudit(ctx, time.Duration(age)*time.Millisecond))
		left := s.trail(store.AuditQuery{})
		if len(left) == 2 {
			continue
		}
		require.NotContains(t, left, first[0])
		break
	}
	require.NoError(t, s.st().PurgeAudit(ctx, -time.Minute))
	require.Empty(t, s.trail(store.AuditQuery{}))
	_, err = s.st().Create(ctx, []store.NewTimer{s.newTimer()}, noFires)
	require.NoError(t, err)
	require.Greater(t, s.trail(store.AuditQuery{})[0].Seq, second.Seq, "it never begins anew")
}
