package sqlstore_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The benchmarks count batches of 500 rows from two goroutines: one op is one batch.
func BenchmarkSQLite(b *testing.B) {
	benchmark(b, func(b *testing.B) *sqlstore.Store {
		b.Helper()
		return openSQLite(b, sqlstore.SQLiteOptions{Dir: b.TempDir()})
	})
}

func BenchmarkMySQL(b *testing.B) {
	benchmark(b, func(b *testing.B) *sqlstore.Store {
		b.Helper()
		return openMySQL(b, sqlstore.MySQLOptions{DSN: testenv.MySQL(b)})
	})
}

// BenchmarkEdit edits timers that are due each second and have an hour of open fires: the labels, or
// the schedule and then the follow-up does the rest, or the schedule in one transaction. As in the
// API, many callers edit one timer each and share transactions.
func BenchmarkEdit(b *testing.B) {
	for _, c := range []struct {
		name         string
		replan       bool
		maxEditFires int
	}{
		{"labels", false, sqlstore.DefaultMaxEditFires},
		{"schedule", true, sqlstore.DefaultMaxEditFires},
		{"schedule at once", true, 1 << 30},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkEdit(b, c.replan, c.maxEditFires) })
	}
}

func benchmarkEdit(b *testing.B, replan bool, maxEditFires int) {
	b.Helper()
	for name, open := range map[string]func(b *testing.B) *sqlstore.Store{
		"SQLite": func(b *testing.B) *sqlstore.Store {
			b.Helper()
			return openSQLite(b, sqlstore.SQLiteOptions{Dir: b.TempDir()})
		},
		"MySQL": func(b *testing.B) *sqlstore.Store {
			b.Helper()
			return openMySQL(b, sqlstore.MySQLOptions{DSN: testenv.MySQL(b)})
		},
	} {
		b.Run(name, func(b *testing.B) {
			const timers, callers = 50, 32
			s := open(b)
			s.SetMaxEditFires(maxEditFires)
			require.NoError(b, s.PurgeExpired(b.Context(), time.Hour))
			definition := func(n int64) timer.Definition {
				jitter := time.Duration(0)
				if replan {
					jitter = time.Duration(n % 1000)
				}
				return timer.Definition{
					Schedule: timer.Schedule{
						Kind:   timer.KindInterval,
						Every:  timer.Duration(time.Second),
						Jitter: timer.Duration(jitter),
					},
					Labels: map[string]string{"n": fmt.Sprint(n)},
					Target: timer.Target{
						Kind:   timer.KindHTTP,
						URL:    fmt.Sprintf("http://127.0.0.1/%d", n),
						Method: "POST",
					},
				}
			}
			hourly := func(t *timer.Timer, nowMS int64) store.Plan {
				p := store.Plan{
					NextDueMS:  max(t.NextDueMS, nowMS-nowMS%1000+1000),
					ExpandAtMS: nowMS + timer.MinuteMS,
				}
				for range 300 {
					p.Fires = append(
						p.Fires,
						timer.Fire{
							FireID:  timer.FireID{Timer: t.ID, DueMS: p.NextDueMS},
							RunAtMS: p.NextDueMS,
						},
					)
					p.NextDueMS += 1000
				}
				return p
			}
			var items []store.NewTimer
			for i := range timers {
				items = append(
					items,
					store.NewTimer{
						App:        "app",
						Name:       fmt.Sprint("t", i),
						Activate:   true,
						Definition: definition(0),
					},
				)
			}
			made, err := s.Create(b.Context(), items, hourly)
			require.NoError(b, err)
			for range 11 {
				for i := range made {
					_, err := s.SetStatus(
						b.Context(),
						[]store.StatusChange{
							{App: "app", ID: made[i].Timer.ID, Status: timer.StatusInactive},
						},
						hourly,
					)
					require.NoError(b, err)
					_, err = s.SetStatus(
						b.Context(),
						[]store.StatusChange{
							{App: "app", ID: made[i].Timer.ID, Status: timer.StatusActive},
						},
						hourly,
					)
					require.NoError(b, err)
				}
			}
			group := batch.New(
				batch.Options{Max: store.MaxBatch, Wait: 2 * time.Millisecond, Concurrency: 4},
				func(ctx context.Context, items []store.Edit) ([]store.EditResult, error) {
					return s.Edit(ctx, items, hourly)
				},
			)
			defer group.Close()
			var next, pages atomic.Int64
			ctx, cancel := context.WithCancel(b.Context())
			var followUps sync.WaitGroup
			for range 2 {
				followUps.Go(func() {
					for ctx.Err() == nil {
						_, more, err := s.ContinueReplans(ctx, hourly)
						if err != nil || !more {
							time.Sleep(50 * time.Millisecond)
							continue
						}
						pages.Add(1)
					}
				})
			}
			var mu sync.Mutex
			var took []time.Duration
			b.SetParallelism(callers / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n, start := next.Add(1), time.Now()
					edited, err := group.Do(
						b.Context(),
						store.Edit{
							App:        "app",
							ID:         made[n%timers].Timer.ID,
							Definition: definition(n),
						},
					)
					if err != nil || edited.Err != nil {
						b.Error(err, edited.Err)
					}
					mu.Lock()
					took = append(took, time.Since(start))
					mu.Unlock()
				}
			})
			b.StopTimer()
			cancel()
			followUps.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "edits/s")
			b.ReportMetric(float64(pages.Load())/b.Elapsed().Seconds(), "pages/s")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

const batchRows = store.MaxBatch

// prepared is a store with a session and an active timer whose expansion creates fires.
type prepared struct {
	*sqlstore.Store
	due atomic.Int64
}

func prepare(b *testing.B, s *sqlstore.Store) *prepared {
	b.Helper()
	p := &prepared{Store: s}
	at, err := s.Now(b.Context())
	require.NoError(b, err)
	p.due.Store(at.UnixMilli())
	require.NoError(
		b,
		s.OpenSession(
			b.Context(),
			store.Session{ID: 1, Kind: store.ExecutorSession, Name: "bench"},
		),
	)
	require.NoError(b, s.PurgeExpired(b.Context(), time.Hour))
	var items []store.NewTimer
	for range 2 {
		items = append(
			items,
			store.NewTimer{App: "app", Name: string(rune('a' + len(items))), Activate: true},
		)
	}
	_, err = s.Create(b.Context(), items, func(t *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{NextDueMS: t.NextDueMS, ExpandAtMS: nowMS}
	})
	require.NoError(b, err)
	return p
}

// insert expands one timer by a batch of fires, which are due together with those of many others.
func (p *prepared) insert(b *testing.B) []timer.Fire {
	fires, n, err := p.Expand(b.Context(), 1, func(t *timer.Timer, nowMS int64) store.Plan {
		from := max(t.NextDueMS, p.due.Load())
		plan := store.Plan{NextDueMS: from + batchRows, ExpandAtMS: nowMS}
		for i := range int64(batchRows) {
			plan.Fires = append(plan.Fires, timer.Fire{
				FireID: timer.FireID{
					Timer: t.ID,
					DueMS: from + i,
				},
				RunAtMS: from + i,
				Bucket:  int32(i % 8),
			})
		}
		return plan
	})
	if err != nil {
		b.Fatal(err)
	}
	if n == 0 {
		return nil
	}
	return fires
}

func (p *prepared) insertMany(b *testing.B, n int) [][]timer.Fire {
	b.Helper()
	var out [][]timer.Fire
	for len(out) < n {
		if f := p.insert(b); f != nil {
			out = append(out, f)
		}
	}
	return out
}

func benchmark(b *testing.B, open func(b *testing.B) *sqlstore.Store) {
	b.Helper()
	inParallel := func(b *testing.B, work func(i int)) {
		b.Helper()
		var next atomic.Int64
		b.SetParallelism(1)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				work(int(next.Add(1)) - 1)
			}
		})
		b.StopTimer()
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/batchRows, "µs/row")
	}
	b.Run("insert", func(b *testing.B) {
		p := prepare(b, open(b))
		inParallel(b, func(int) { p.insert(b) })
	})
	b.Run("claim", func(b *testing.B) {
		p := prepare(b, open(b))
		batches := p.insertMany(b, b.N)
		inParallel(b, func(i int) {
			won, err := p.Claim(b.Context(), 1, batches[i])
			if err != nil || len(won) != batchRows {
				b.Errorf("won %d: %v", len(won), err)
			}
		})
	})
	b.Run("record", func(b *testing.B) {
		p := prepare(b, open(b))
		batches := p.insertMany(b, b.N)
		for i, fires := range batches {
			won, err := p.Claim(b.Context(), 1, fires)
			require.NoError(b, err)
			batches[i] = won
		}
		now := time.Now().UnixMilli()
		inParallel(b, func(i int) {
			outcomes := make([]timer.Outcome, batchRows)
			for n, f := range batches[i] {
				outcomes[n] = timer.Outcome{
					Fire:       f,
					Kind:       timer.Delivered,
					FinishedMS: now + int64(i),
					UntilMS:    f.DueMS,
					Count:      1,
					Attempts:   1,
					StatusCode: 200,
				}
			}
			lost, _, err := p.Record(b.Context(), 1, outcomes, nil)
			if err != nil || len(lost) > 0 {
				b.Errorf("lost %d: %v", len(lost), err)
			}
		})
	})
	b.Run("load", func(b *testing.B) {
		p := prepare(b, open(b))
		fires := p.insertMany(b, 400)
		first := fires[200][0]
		inParallel(b, func(int) {
			got, err := p.LoadSlice(
				b.Context(),
				first.RunAtMinute(),
				0,
				store.Position{},
				timer.NeverMS,
				batchRows,
			)
			if err != nil || len(got) != batchRows {
				b.Errorf("loaded %d: %v", len(got), err)
			}
		})
	})
}
