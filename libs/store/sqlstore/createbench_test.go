package sqlstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// BenchmarkCreate creates active timers with a fire each, some with three labels, some with an entry
// in the audit trail: one op is a batch of 500.
func BenchmarkCreate(b *testing.B) {
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
		for _, labels := range []bool{false, true} {
			for _, by := range []*store.Actor{nil, {
				Kind: store.ActorKey, ID: "0d6f2a1c9b7e", Name: "deployments",
				Address: "10.20.30.40", Request: "4bf92f3577b34da6a3ce929d0e0e4736",
			}} {
				b.Run(
					fmt.Sprintf("%s/labels=%v/audit=%v", name, labels, by != nil),
					func(b *testing.B) {
						benchmarkCreate(b, open(b), labels, by)
					},
				)
			}
		}
	}
}

func benchmarkCreate(b *testing.B, s *sqlstore.Store, labels bool, by *store.Actor) {
	b.Helper()
	plan := func(t *timer.Timer, nowMS int64) store.Plan {
		due := nowMS + timer.MinuteMS
		return store.Plan{
			Fires:     []timer.Fire{{FireID: timer.FireID{Timer: t.ID, DueMS: due}, RunAtMS: due}},
			NextDueMS: due + 60*timer.MinuteMS, ExpandAtMS: due,
		}
	}
	n := 0
	for b.Loop() {
		items := make([]store.NewTimer, store.MaxBatch)
		for i := range items {
			n++
			items[i] = store.NewTimer{
				App: "app", Name: fmt.Sprint("t", n), Activate: true, By: by,
				Definition: timer.Definition{
					Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{"0 9 * * *"}},
					Target: timer.Target{
						Kind:   timer.KindHTTP,
						URL:    "https://pay.example/",
						Method: "POST",
					},
				},
			}
			if labels {
				items[i].Definition.Labels = map[string]string{
					"team": fmt.Sprint(n % 100), "env": "prod", "tier": fmt.Sprint(n % 3),
				}
			}
		}
		out, err := s.Create(b.Context(), items, plan)
		require.NoError(b, err)
		require.NoError(b, out[0].Err)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "timers/s")
}
