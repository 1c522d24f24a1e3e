package sqlstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// fireRows counts the rows of fires that statements name.
type fireRows struct {
	mu                    sync.Mutex
	of                    string // the part of a fire's key that names the timer
	locked, read, largest int
}

func (c *fireRows) watch(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := strings.Count(text, c.of)
	if !strings.Contains(text, " fires") || n == 0 {
		return
	}
	if strings.HasPrefix(text, "SELECT") && !strings.HasSuffix(text, "FOR UPDATE") {
		c.read += n
		return
	}
	c.locked += n
	c.largest = max(c.largest, n)
}

// take returns the counts and sets them back.
func (c *fireRows) take() (locked, read, largest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	locked, read, largest = c.locked, c.read, c.largest
	c.locked, c.read, c.largest = 0, 0, 0
	return locked, read, largest
}

// TestEditTouchesFewFires counts the fires that an edit of the schedule and one of the priority
// name, of a timer with hundreds and of one with thousands of open fires.
func TestEditTouchesFewFires(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) *sqlstore.Store{
		"SQLite": func(t *testing.T) *sqlstore.Store {
			t.Helper()
			return openSQLite(t, sqlstore.SQLiteOptions{})
		},
		"MySQL": func(t *testing.T) *sqlstore.Store {
			t.Helper()
			return openMySQL(t, sqlstore.MySQLOptions{DSN: testenv.MySQL(t)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, rows := range []int{500, 5000} {
				t.Run(fmt.Sprint(rows), func(t *testing.T) {
					t.Parallel()
					editTouchesFewFires(t, open(t), rows)
				})
			}
		})
	}
}

func editTouchesFewFires(t *testing.T, s *sqlstore.Store, rows int) {
	t.Helper()
	const page = 300
	most := rows
	plan := func(tm *timer.Timer, nowMS int64) store.Plan {
		every := time.Duration(tm.Definition.Schedule.Every).Milliseconds()
		due := max(tm.NextDueMS, tm.ActiveSinceMS)
		due += (every - due%every) % every
		p := store.Plan{ExpandAtMS: nowMS + time.Hour.Milliseconds()}
		for range most {
			p.Fires = append(p.Fires, timer.Fire{
				FireID:        timer.FireID{Timer: tm.ID, DueMS: due},
				RunAtMS:       due,
				PriorityLevel: tm.Definition.Priority.PriorityLevel(),
			})
			due += every
		}
		p.NextDueMS = due
		return p
	}
	var sent fireRows
	s.OnStatement(sent.watch)
	d := timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(time.Second)},
		Target:   timer.Target{Kind: timer.KindHTTP, URL: "http://127.0.0.1", Method: "POST"},
	}
	made, err := s.Create(
		t.Context(),
		[]store.NewTimer{{App: "app", Name: "t", Activate: true, Definition: d}},
		plan,
	)
	require.NoError(t, err)
	require.Len(t, made[0].Fires, rows)
	sent.of = fmt.Sprintf(",%d,0", made[0].Timer.ID)
	sent.take()
	most = page
	for _, change := range []func(){
		func() { d.Priority = timer.PriorityHigh },
		func() { d.Schedule.Every = timer.Duration(2 * time.Second) },
		func() { d.Misfire = timer.Misfire{Policy: timer.MisfireFireAll} },
	} {
		change()
		edited, err := s.Edit(
			t.Context(),
			[]store.Edit{{App: "app", ID: made[0].Timer.ID, Definition: d}},
			plan,
		)
		require.NoError(t, err)
		require.NoError(t, edited[0].Err)
		locked, read, _ := sent.take()
		require.Positive(t, locked)
		require.LessOrEqual(t, locked, 3*sqlstore.DefaultMaxEditFires, "locked, updated, inserted")
		require.LessOrEqual(t, read, 61+sqlstore.DefaultMaxEditFires, "those of the next minute")
		for more := true; more; {
			_, more, err = s.ContinueReplans(t.Context(), plan)
			require.NoError(t, err)
			_, _, largest := sent.take()
			require.LessOrEqual(t, largest, page)
		}
	}
}
