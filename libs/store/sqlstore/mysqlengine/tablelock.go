package mysqlengine

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// A holder renews its lock every tablePoll. The others poll as often, and take the lock over once
// tablePolls answers have shown no renewal. They compare no clocks, and a server that does not
// answer, such as during a long change of a table, brings nobody closer to taking over.
const (
	tablePoll  = time.Second
	tablePolls = 20
)

const (
	createLocks = "CREATE TABLE IF NOT EXISTS named_locks (name VARBINARY(64) NOT NULL, " +
		"holder VARBINARY(32) NOT NULL, renewals BIGINT NOT NULL, PRIMARY KEY (name)) ENGINE=InnoDB"
	insertLock  = "INSERT INTO named_locks (name,holder,renewals) VALUES (?,'',0) ON DUPLICATE KEY UPDATE name=name"
	readLock    = "SELECT holder,renewals FROM named_locks WHERE name=?"
	takeFree    = "UPDATE named_locks SET holder=?,renewals=renewals+1 WHERE name=? AND holder=? AND renewals=?"
	renewLock   = "UPDATE named_locks SET renewals=renewals+1 WHERE name=? AND holder=?"
	releaseLine = "UPDATE named_locks SET holder='' WHERE name=? AND holder=?"
)

var tableLockStatements = []string{
	createLocks, insertLock, readLock, takeFree, renewLock, releaseLine,
}

var errTableLockLost = errors.New("another process took the lock over: this one was stalled")

// tableLock is a lock in a table, for servers on which GET_LOCK does not exclude all. Of two that
// take it at once, both write its row: one of the two finds it changed, or is rolled back.
type tableLock struct {
	db           *sql.DB
	name, holder string
}

// aroundTableLock runs fn under a lock. fn's context ends when the lock is lost, which takes a
// process that is stalled for tablePolls polls. What fn does may therefore be done twice at once
// for a moment; migrations bear that, because each of their statements may be repeated.
func aroundTableLock(
	ctx context.Context, db *sql.DB, name string, waitS int, fn func(ctx context.Context) error,
) error {
	l := &tableLock{db: db, name: name, holder: rand.Text()}
	if err := l.take(ctx, waitS); err != nil {
		return fmt.Errorf("taking the lock %s: %w", name, err)
	}
	held, lose := context.WithCancelCause(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { l.renew(held, lose) })
	err := fn(held)
	if errors.Is(context.Cause(held), errTableLockLost) {
		err = errors.Join(err, errTableLockLost)
	}
	lose(nil)
	wait.Wait()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.DefaultTimeout)
	defer cancel()
	if _, failed := l.exec(end, releaseLine, name, l.holder); failed != nil {
		err = errors.Join(err, fmt.Errorf("releasing the lock %s: %w", name, failed))
	}
	return err
}

func (l *tableLock) take(ctx context.Context, waitS int) error {
	for _, q := range []string{createLocks, insertLock} {
		args := []any{l.name}
		if q == createLocks {
			args = nil
		}
		if _, err := l.exec(ctx, q, args...); err != nil {
			return err
		}
	}
	var last string
	same := 0
	for range waitS + 1 {
		var holder string
		var renewals int64
		err := l.db.QueryRowContext(ctx, readLock, l.name).Scan(&holder, &renewals)
		if err != nil {
			return err //nolint:wrapcheck // the caller says what it was doing
		}
		if now := fmt.Sprint(holder, " ", renewals); now != last {
			last, same = now, 0
		}
		if same++; holder == "" || same > tablePolls {
			n, err := l.exec(ctx, takeFree, l.holder, l.name, holder, renewals)
			if err != nil || n == 1 {
				return err
			}
			continue // another process was faster
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx) //nolint:wrapcheck // as above
		case <-time.After(tablePoll):
		}
	}
	return ErrLockTaken
}

// renew renews the lock until ctx ends. An error is no loss: the next renewal tells.
func (l *tableLock) renew(ctx context.Context, lose context.CancelCauseFunc) {
	tick := time.NewTicker(tablePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n, err := l.exec(ctx, renewLock, l.name, l.holder); err == nil && n == 0 {
			lose(errTableLockLost)
			return
		}
	}
}

// exec runs a statement, and repeats it if another node's transaction wrote the row first.
func (l *tableLock) exec(ctx context.Context, query string, args ...any) (int64, error) {
	for {
		res, err := l.db.ExecContext(ctx, query, args...)
		if Classify(err) == engine.ClassRepeat && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return 0, err //nolint:wrapcheck // the caller says what it was doing
		}
		return res.RowsAffected() //nolint:wrapcheck // as above
	}
}
