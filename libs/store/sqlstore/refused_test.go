package sqlstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestRefusedValueStopsNoOtherCreate checks that a value which the database refuses is the error of its
// item alone: creates of several callers share a transaction.
func TestRefusedValueStopsNoOtherCreate(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		t.Helper()
		// MySQL refuses a longer name. SQLite takes any, so a trigger stands for it.
		if strings.HasSuffix(t.Name(), "SQLite") {
			_, err := s.Exec(t.Context(), fmt.Sprintf(
				"CREATE TRIGGER short_names BEFORE INSERT ON timers WHEN length(NEW.name)>%d "+
					"BEGIN SELECT RAISE(ABORT,'too long'); END", timer.MaxNameLen))
			require.NoError(t, err)
		}
		d := timer.Definition{
			Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{"@daily"}},
			Target:   timer.Target{Kind: timer.KindHTTP, URL: "https://example.com/"},
			Retry:    timer.DefaultRetry(),
		}
		const items, bad = 7, 4
		var all []store.NewTimer
		for i := range items {
			all = append(all, store.NewTimer{
				App: fmt.Sprint("app", i%2), Name: fmt.Sprint("t", i), Definition: d,
			})
		}
		all[bad].Name = strings.Repeat("x", timer.MaxNameLen+1)
		out, err := s.Create(t.Context(), all, idlePlan)
		require.NoError(t, err)
		require.Len(t, out, items)
		for i := range out {
			if i == bad {
				require.Equal(t, timer.CodeInternal, timer.CodeOf(out[i].Err))
				continue
			}
			require.NoError(t, out[i].Err)
			require.False(t, out[i].Existing)
			require.Equal(t, all[i].Name, out[i].Timer.Name)
		}
		n, err := s.Number(t.Context(), "SELECT COUNT(*) FROM timers")
		require.NoError(t, err)
		require.Equal(t, items-1, n)
	})
}
