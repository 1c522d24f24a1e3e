package sqlstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// searchPages are the searches that BenchmarkSearch times, for the app of searchRows.
var searchPages = []struct {
	name, labels string
	query        store.SearchQuery
}{
	{name: "all"},
	{name: "one in 1000", labels: "team=t7"},
	{name: "seven in ten", labels: "env=prod"},
	{name: "two of them", labels: "env=prod,team=t7"},
	{name: "large and large", labels: "env in (dev,stage),tier=1,status!=x"},
	{name: "disjoint", labels: "env=dev,parity=even,zone=odd"},
	{name: "rare name", labels: "owner"},
	{name: "without", labels: "!owner,env!=prod"},
	{name: "paused", query: store.SearchQuery{Filter: store.Filter{Status: timer.StatusPaused}}},
	{name: "host", query: store.SearchQuery{Filter: store.Filter{TargetHost: "h3.example"}}},
	{name: "prefix", query: store.SearchQuery{Filter: store.Filter{NamePrefix: "t77-"}}},
	{name: "prefix by name", query: store.SearchQuery{
		Filter: store.Filter{NamePrefix: "t7"}, Sort: store.SortName,
	}},
	{name: "contains", query: store.SearchQuery{Filter: store.Filter{NameContains: "99"}}},
	{name: "contains, rare", query: store.SearchQuery{
		Filter: store.Filter{NameContains: "-99999"}, Sort: store.SortName,
	}},
	{name: "by name", query: store.SearchQuery{Sort: store.SortName}},
	{name: "by next due", query: store.SearchQuery{Sort: store.SortNextDue}},
	{
		name:   "by next due, label",
		labels: "team=t7",
		query:  store.SearchQuery{Sort: store.SortNextDue},
	},
	{
		name:   "by next due, large label",
		labels: "env=prod",
		query:  store.SearchQuery{Sort: store.SortNextDue},
	},
	{name: "due in 2 h", query: store.SearchQuery{Filter: store.Filter{DueToMS: 2}}},
	{
		name:   "due in 2 h, label",
		labels: "team=t7",
		query:  store.SearchQuery{Filter: store.Filter{DueToMS: 2}},
	},
	{
		name:  "last failed",
		query: store.SearchQuery{Filter: store.Filter{LastOutcome: timer.Failed}},
	},
	{name: "last delivered, label", labels: "team=t7", query: store.SearchQuery{
		Filter: store.Filter{LastOutcome: timer.Delivered},
	}},
	{
		name:   "by last fired, label",
		labels: "team=t7",
		query:  store.SearchQuery{Sort: store.SortLastFired},
	},
}

// BenchmarkSearch times pages of 100 timers of one app. CARILLON_TEST_BENCH_TIMERS is how many timers
// the app has. Run it with -benchtime 100x: each page then begins at one of 30 places.
func BenchmarkSearch(b *testing.B) {
	n := 20_000
	if text := os.Getenv("CARILLON_TEST_BENCH_TIMERS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(b, err)
	}
	for name, open := range map[string]func() *sqlstore.Store{
		"SQLite": func() *sqlstore.Store { return openSQLite(b, sqlstore.SQLiteOptions{Dir: b.TempDir()}) },
		"MySQL": func() *sqlstore.Store {
			return openMySQL(b, sqlstore.MySQLOptions{DSN: testenv.MySQL(b), Timeout: time.Hour})
		},
	} {
		b.Run(name, func(b *testing.B) {
			s := open()
			searchRows(b, s, n)
			for _, p := range searchPages {
				q := p.query
				q.App, q.Limit, q.NextDue = "app", 100, nextDueByRow
				var err error
				q.Labels, err = selector.Parse(p.labels)
				require.NoError(b, err)
				b.Run(p.name, func(b *testing.B) { benchmarkPages(b, s, q) })
				b.Run("count "+p.name, func(b *testing.B) {
					times(b, func(ctx context.Context) error {
						q.Limit = 10_000
						_, err := s.Count(ctx, withDue(q))
						return err //nolint:wrapcheck // of the store
					})
				})
			}
		})
	}
}

// nextDueByRow stands for the computation of the schedule.
func nextDueByRow(_ context.Context, t *timer.Timer) (int64, error) {
	if t.LastDueMS > time.Now().UnixMilli() {
		return t.LastDueMS, nil
	}
	return t.NextDueMS, nil
}

// withDue replaces hours by instants.
func withDue(q store.SearchQuery) store.SearchQuery {
	if q.DueToMS != 0 {
		q.DueToMS = time.Now().UnixMilli() + q.DueToMS*60*timer.MinuteMS
	}
	return q
}

// benchmarkPages reads pages one after the other, 30 in a row.
func benchmarkPages(b *testing.B, s *sqlstore.Store, q store.SearchQuery) {
	b.Helper()
	const inRow = 30
	first, pages, found, i := withDue(q), 0, 0, 0
	mine := first
	times(b, func(ctx context.Context) error {
		if i++; i%inRow == 0 {
			mine = first
		}
		page, err := s.Search(ctx, mine)
		if err != nil {
			return err //nolint:wrapcheck // of the store
		}
		pages, found = pages+1, found+len(page.Timers)
		if mine.After = page.Next; !page.More {
			mine = first
		}
		return nil
	})
	b.ReportMetric(float64(found)/float64(pages), "timers/page")
}

// times calls f b.N times and reports the median, the 99th percentile and the largest duration.
func times(b *testing.B, f func(ctx context.Context) error) {
	b.Helper()
	var all []time.Duration
	for b.Loop() {
		begin := time.Now()
		require.NoError(b, f(b.Context()))
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	ms := func(part float64) float64 {
		return float64(all[int(part*float64(len(all)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(ms(0.5), "p50-ms")
	b.ReportMetric(ms(0.99), "p99-ms")
	b.ReportMetric(ms(1), "max-ms")
}

// searchRows inserts n timers of one app directly, and an outcome of every third one.
func searchRows(b *testing.B, s *sqlstore.Store, n int) {
	b.Helper()
	ctx := b.Context()
	require.NoError(b, s.PurgeExpired(ctx, 7*24*time.Hour)) // adds partitions
	_, err := s.Create(ctx, []store.NewTimer{{App: "app", Name: "first"}}, nil)
	require.NoError(b, err)
	first, err := s.TimerByName(ctx, "app", "first")
	require.NoError(b, err)
	now := time.Now().UnixMilli()
	r := rand.New(rand.NewPCG(1, 1))
	for from := 0; from < n; from += 1000 {
		var timers, versions, attributes, outcomes, failed values
		for i := from; i < min(n, from+1000); i++ {
			id := int64(first.ID) + int64(i) + 1
			team := fmt.Sprintf("t%d", i%1000)
			labels := map[string]string{
				"team": team,
				"env":  []string{"prod", "prod", "prod", "prod", "prod", "prod", "prod", "dev", "dev", "stage"}[r.IntN(10)],
				"tier": strconv.Itoa(r.IntN(3)),
			}
			if i%2 == 0 {
				labels["parity"] = "even"
			} else {
				labels["zone"] = "odd"
			}
			if i%2000 == 77 {
				labels["owner"] = fmt.Sprintf("o%d", i)
			}
			due, last, status := now+r.Int64N(24*60)*timer.MinuteMS, int64(0), 1
			if due < now+60*timer.MinuteMS {
				due, last = due+24*60*timer.MinuteMS, due
			}
			if i%10 == 3 {
				status = 3
			}
			name := fmt.Sprintf("%s-job-%d", team, i)
			timers.addf("(%d,%d,'%s','%s',%d,1,1,1,%d,%d,%d,0,1,%d,0,0,'',1,1,1,1)",
				id, first.AppID, name, name, status, due, last, due, now)
			host := fmt.Sprintf("h%d.example", i%50)
			text, err := json.Marshal(timer.Definition{
				Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{"0 9 * * *"}},
				Target: timer.Target{
					Kind:   timer.KindHTTP,
					URL:    "https://" + host + "/",
					Method: "POST",
				},
				Labels: labels,
			})
			require.NoError(b, err)
			versions.addf("(%d,1,0,x'%064x',x'%x',1)", id, id, text)
			attributes.addf("(%d,1,'','%s',%d)", first.AppID, host, id)
			for name, value := range labels {
				attributes.addf("(%d,0,'%s','%s',%d)", first.AppID, name, value, id)
			}
			if i%3 == 0 {
				kind := "delivered"
				if i%600 == 0 {
					kind = "failed"
					failed.addf("(%d,%d,%d,%d,0)", first.AppID, now, id, now)
				}
				outcomes.addf("(%d,%d,%d,0,%d,1,0,%d,1,1,0,0,0,'%s','','',1,0,200,1,0)",
					now, id, now, now, first.AppID, kind)
			}
		}
		timers.insert(
			ctx,
			b,
			s,
			"timers (id,app_id,name,live_name,status,version,version_since_ms,active_since_ms,next_due_ms,last_due_ms,expand_at_ms,replan,fires_created,anchor_ms,inactive_since_ms,paused_until_ms,pause_reason,creation_token,created_ms,updated_ms,active_epoch)",
		)
		versions.insert(
			ctx,
			b,
			s,
			"timer_versions (timer_id,version,plan_version,hash,definition,created_ms)",
		)
		attributes.insert(ctx, b, s, "timer_attributes (app_id,kind,name,value,timer_id)")
		outcomes.insert(
			ctx,
			b,
			s,
			"outcomes (finished_ms,timer_id,due_ms,series,until_ms,fire_count,run_at_ms,app_id,version,epoch,cause,revision,owner,kind,reason,failure,attempts,lateness_ms,status_code,duration_ms,redrive_series)",
		)
		failed.insert(ctx, b, s, "failed_outcomes (app_id,finished_ms,timer_id,due_ms,series)")
	}
}

// values are rows of an INSERT.
type values struct{ bytes.Buffer }

func (r *values) addf(format string, args ...any) {
	if r.Len() > 0 {
		r.WriteByte(',')
	}
	fmt.Fprintf(r, format, args...)
}

func (r *values) insert(ctx context.Context, b *testing.B, s *sqlstore.Store, table string) {
	b.Helper()
	if r.Len() == 0 {
		return
	}
	_, err := s.Exec(ctx, "INSERT INTO "+table+" VALUES "+r.String())
	require.NoError(b, err)
}
