package operations

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/selfcheck"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

const (
	countLimit = 10_000           // of fires, timers and jobs
	topApps    = 10               // that are named
	endedFor   = 10 * time.Minute // how long ended sessions are shown
	// busTimeout limits how long the bus may take. Its backlogs are then unknown, and everything
	// else is shown.
	busTimeout = 2 * time.Second
)

type output struct{ Body operationsBody }

type operationsBody struct {
	At        string        `json:"at" format:"date-time" doc:"By the store's clock, as this process measures it."`
	Sessions  []sessionBody `json:"sessions" nullable:"false" doc:"Alive sessions, and those that ended in the last ten minutes."`
	Cursor    cursorBody    `json:"cursor"`
	Overdue   overdueBody   `json:"overdue"`
	Expansion backlogBody   `json:"expansion" doc:"Active timers whose schedules are due for expansion."`
	Jobs      backlogBody   `json:"jobs" doc:"Running jobs."`
	Topics    []topicBody   `json:"topics" nullable:"false"`
	Canary    *canaryBody   `json:"canary,omitempty" doc:"The latest canary that has ended. Absent where there is none."`
	Checks    []checkBody   `json:"checks" nullable:"false" doc:"Those that /readyz of the process that answers shows. Other processes have their own."`
}

type checkBody struct {
	Name     string `json:"name" example:"deployment"`
	OK       bool   `json:"ok"`
	Optional bool   `json:"optional" doc:"The process is ready without it."`
	Error    string `json:"error,omitempty" doc:"What is wrong."`
}

type sessionBody struct {
	ID           string `json:"id"`
	Name         string `json:"name" doc:"Of the process, for people."`
	Kind         string `json:"kind" enum:"executor,scheduler"`
	Alive        bool   `json:"alive"`
	InflightFull bool   `json:"inflight_full" doc:"Of an executor: it receives no more tasks for now."`
	OldestTaskMS int64  `json:"oldest_task_ms" doc:"Of an executor: the age of the task that it received last, on the topic that is furthest behind."`
}

type cursorBody struct {
	Minute        string `json:"minute" format:"date-time" doc:"Every slice before this minute is finished."`
	LagMS         int64  `json:"lag_ms" doc:"How far this minute is in the past. Under a minute or two where all is well."`
	ClaimedSlices int64  `json:"claimed_slices" doc:"Slices that are claimed and not finished."`
}

type overdueBody struct {
	Count   int    `json:"count" doc:"Open fires whose run time lies in an earlier minute. Calls in progress are among them."`
	Minimum bool   `json:"minimum" doc:"There are more than the 10000 that are counted."`
	Oldest  string `json:"oldest,omitempty" format:"date-time" doc:"Run time of the most overdue open fire, also of this minute."`
	ByMS    int64  `json:"by_ms" doc:"How long ago that is."`

	Apps []overdueAppBody `json:"apps" nullable:"false" doc:"The apps with most of the counted fires, ten at the most, in descending order. Where minimum is true, those that are overdue longest are counted."`
}

type overdueAppBody struct {
	App   string `json:"app" example:"shop"`
	Count int    `json:"count"`
}

type backlogBody struct {
	Count   int    `json:"count"`
	Minimum bool   `json:"minimum" doc:"There are more than the 10000 that are counted."`
	Oldest  string `json:"oldest,omitempty" format:"date-time" doc:"Since when the first of them waits."`
}

type topicBody struct {
	Topic        string `json:"topic" example:"tasks-normal"`
	Subscription string `json:"subscription" example:"executors"`
	Messages     *int64 `json:"messages,omitempty" doc:"Messages that nobody has acknowledged. Absent where the bus did not answer in time."`
}

type canaryBody struct {
	Due        string `json:"due" format:"date-time"`
	Status     string `json:"status" enum:"delivered,failed,skipped"`
	LatenessMS int64  `json:"lateness_ms"`
}

func (s *Resource) get(ctx context.Context, _ *struct{}) (*output, error) {
	if err := s.Auth.RequireDeploymentKey(ctx); err != nil {
		return nil, err //nolint:wrapcheck // it is the answer
	}
	now := s.Now()
	out := &output{operationsBody{At: input.Instant(now.UnixMilli())}}
	b := &out.Body
	for _, read := range []func() error{
		func() (err error) { b.Sessions, err = s.sessions(ctx); return err },
		func() (err error) { b.Cursor, err = s.cursor(ctx, now); return err },
		func() (err error) { b.Overdue, err = s.overdue(ctx, now); return err },
		func() (err error) { b.Expansion, err = backlog(s.Store.ExpandBacklog(ctx, countLimit)); return err },
		func() (err error) { b.Jobs, err = backlog(s.Store.JobBacklog(ctx, countLimit)); return err },
		func() (err error) { b.Canary, err = s.canary(ctx); return err },
	} {
		if err := read(); err != nil {
			return nil, fmt.Errorf("reading the state of the deployment: %w", err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { b.Topics = s.topics(ctx) })
	wg.Go(func() { b.Checks = s.checks(ctx) })
	wg.Wait()
	return out, nil
}

func (s *Resource) sessions(ctx context.Context) ([]sessionBody, error) {
	live, err := s.Store.LiveSessions(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was doing
	}
	ended, err := s.Store.ExpiredSessions(ctx, endedFor)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was doing
	}
	// A session that ended between the two reads is in both. It has ended.
	live = slices.DeleteFunc(live, func(l store.Session) bool {
		return slices.ContainsFunc(ended, func(e store.Session) bool { return e.ID == l.ID })
	})
	out := make([]sessionBody, 0, len(live)+len(ended))
	for _, list := range [][]store.Session{live, ended} {
		slices.SortFunc(list, func(a, b store.Session) int {
			return cmp.Or(
				cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		})
		for i := range list {
			v := &list[i]
			out = append(out, sessionBody{
				ID: v.ID.String(), Name: v.Name, Kind: string(v.Kind), Alive: !v.Ended,
				InflightFull: v.Load.InflightFull, OldestTaskMS: v.Load.OldestTaskMS,
			})
		}
	}
	return out, nil
}

// cursor sets the cursor of a new deployment, as a scheduler does.
func (s *Resource) cursor(ctx context.Context, now time.Time) (c cursorBody, err error) {
	minute, err := s.Store.Cursor(ctx, timer.MinuteOf(now.UnixMilli()))
	if err != nil {
		return c, err //nolint:wrapcheck // the caller says what it was doing
	}
	at := minute * timer.MinuteMS
	c.Minute, c.LagMS = input.Instant(at), max(0, now.UnixMilli()-at)
	c.ClaimedSlices, err = s.Store.SliceBacklog(ctx)
	return c, err //nolint:wrapcheck // the caller says what it was doing
}

func (s *Resource) overdue(ctx context.Context, now time.Time) (o overdueBody, err error) {
	var apps []store.AppCount
	if o.Count, apps, err = s.Store.OverdueByApp(ctx, countLimit, topApps); err != nil {
		return o, err //nolint:wrapcheck // the caller says what it was doing
	}
	o.Apps = make([]overdueAppBody, len(apps))
	for i, a := range apps {
		o.Apps[i] = overdueAppBody(a)
	}
	o.Minimum = o.Count == countLimit
	oldest, err := s.Store.OldestOpen(ctx)
	if oldest > 0 {
		o.Oldest, o.ByMS = input.Instant(oldest), max(0, now.UnixMilli()-oldest)
	}
	return o, err //nolint:wrapcheck // the caller says what it was doing
}

func backlog(n int, oldestMS int64, err error) (backlogBody, error) {
	b := backlogBody{Count: n, Minimum: n == countLimit}
	if n > 0 {
		b.Oldest = input.Instant(oldestMS)
	}
	return b, err
}

// canary reads the latest outcome of the canary. A canary of another interval that was deleted is
// not found.
func (s *Resource) canary(ctx context.Context) (*canaryBody, error) {
	found, err := s.Store.List(ctx, store.Query{App: timer.ReservedApp, Limit: store.MaxBatch})
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was doing
	}
	at := slices.IndexFunc(found, func(t timer.Timer) bool {
		return t.Name == selfcheck.CanaryName
	})
	if at < 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	last, err := s.Store.History(ctx, timer.ReservedApp, found[at].ID, timer.FireID{}, 1)
	if timer.CodeOf(err) == timer.CodeNotFound {
		return nil, nil //nolint:nilnil // it was deleted meanwhile
	}
	if err != nil || len(last) == 0 {
		return nil, err //nolint:wrapcheck // the caller says what it was doing
	}
	return &canaryBody{
		Due: input.Instant(last[0].DueMS), Status: string(last[0].Kind),
		LatenessMS: last[0].LatenessMS,
	}, nil
}

// topics asks the bus for all backlogs at once.
func (s *Resource) topics(ctx context.Context) []topicBody {
	out := []topicBody{}
	if s.Bus == nil {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	for _, spec := range bus.Topics(bus.DefaultTaskPartitions) {
		for _, subscription := range spec.Subscriptions {
			out = append(out, topicBody{Topic: string(spec.Topic), Subscription: subscription})
		}
	}
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			n, err := s.Bus.Backlog(ctx, bus.Topic(out[i].Topic), out[i].Subscription)
			if err == nil {
				out[i].Messages = &n
			}
		})
	}
	wg.Wait()
	return out
}

// checks runs the checks of this process.
func (s *Resource) checks(ctx context.Context) []checkBody {
	out := []checkBody{}
	if s.Health == nil {
		return out
	}
	results, _ := s.Health.Run(ctx)
	for _, r := range results {
		out = append(out, checkBody{Name: r.Name, OK: r.OK, Optional: r.Optional, Error: r.Error})
	}
	return out
}

type settingsOutput struct{ Body settingListBody }

type settingListBody struct {
	Items []Setting `json:"items" nullable:"false"`
}

func (s *Resource) listSettings(ctx context.Context, _ *struct{}) (*settingsOutput, error) {
	if err := s.Auth.RequireDeploymentKey(ctx); err != nil {
		return nil, err //nolint:wrapcheck // it is the answer
	}
	return &settingsOutput{settingListBody{Items: append([]Setting{}, s.Settings...)}}, nil
}
