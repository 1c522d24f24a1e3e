package sqliteengine

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestAFullDiskIsTheErrorOfTheWholeGroup checks that a call whose writes were rolled back because of
// another one learns why. Its caller repeats it later if the disk was full, and never otherwise. So
// does a call that was refused, perhaps for what another one of the group wrote.
func TestAFullDiskIsTheErrorOfTheWholeGroup(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e, err := Open(ctx, "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	exec := func(text string) engine.Work {
		return func(ctx context.Context, c engine.Runner) error {
			_, err := c.ExecContext(ctx, text)
			return err //nolint:wrapcheck // the test asks for its class
		}
	}
	require.NoError(t, e.Transact(ctx, exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)")))
	require.NoError(t, e.Transact(ctx, exec("PRAGMA max_page_count=10")))
	refused, large := make(chan error, 1), make(chan error, 1)
	err = e.Transact(ctx, func(ctx context.Context, c engine.Runner) error {
		queue := func(answer chan<- error, fn engine.Work) {
			before := len(e.writer.jobs)
			go func() { answer <- e.Transact(ctx, fn) }()
			for len(e.writer.jobs) == before {
				runtime.Gosched()
			}
		}
		queue(refused, func(context.Context, engine.Runner) error {
			return timer.Conflict("name", "there is a row 1")
		})
		queue(large, exec("INSERT INTO t VALUES (2,zeroblob(1000000))"))
		return exec("INSERT INTO t VALUES (1,'')")(ctx, c)
	})
	require.True(t, IsFull(<-large))
	require.True(t, IsFull(<-refused), "row 1 is undone")
	require.True(t, IsFull(err), err)
	require.Equal(t, engine.ClassUnavailable, Classify(err))
	var rows int
	require.NoError(t, e.reads.GetContext(ctx, &rows, "SELECT COUNT(*) FROM t"))
	require.Zero(t, rows)
	require.NoError(t, e.Transact(ctx, exec("INSERT INTO t VALUES (1,'')")))
}

// TestUrgentCallsDoNotWaitBehindOthers checks that a renewal waits for one large call at most, both
// for its turn and for its commit. An executor that does not renew its session for two seconds starts
// no calls.
func TestUrgentCallsDoNotWaitBehindOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		e, err := Open(ctx, "")
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close()) }()
		begin := time.Now()
		large := func(context.Context, engine.Runner) error {
			time.Sleep(time.Second)
			return nil
		}
		ends := make(chan error, 6)
		for range 5 {
			go func() { ends <- e.Transact(ctx, large) }()
		}
		synctest.Wait() // the first one runs, and the others wait
		quick := func(context.Context, engine.Runner) error { return nil }
		require.NoError(t, e.Urgent(ctx, quick))
		require.Equal(t, time.Second, time.Since(begin))
		go func() { ends <- e.Transact(ctx, quick) }()
		for range cap(ends) {
			require.NoError(t, <-ends)
		}
		require.Equal(t, 5*time.Second, time.Since(begin))
	})
}
