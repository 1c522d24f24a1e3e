package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

func mysqlErrors(env *Environment) error {
	return inSequence(
		env,
		killConnections(10*time.Second),
		deadlocks(15*time.Second),
		lostCommits(15*time.Second),
	)
}

// killConnections kills all connections of the services to the database, once a second.
func killConnections(d time.Duration) func(*Environment) error {
	return func(env *Environment) error {
		err := env.inject(
			"MariaDB kills all connections, each second",
			outageTarget,
			func(f *Fault) (string, error) {
				total := 0
				for began := time.Now(); time.Since(began) < d; clock.Pause(env.ctx, time.Second) {
					n, err := env.killAllConnections()
					if err != nil {
						return "", err
					}
					total += n
				}
				f.markEnd()
				if total == 0 {
					return "", errors.New("no connection to kill")
				}
				return fmt.Sprintf("%d connections killed", total), nil
			},
		)
		clock.Pause(env.ctx, env.recoveryWait())
		return err
	}
}

func (env *Environment) killAllConnections() (int, error) {
	rows, err := env.db.QueryContext(
		env.ctx,
		`SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()`,
	)
	if err != nil {
		return 0, fmt.Errorf("listing connections: %w", err)
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return 0, fmt.Errorf("listing connections: %w", err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("listing connections: %w", err)
	}
	n := 0
	for _, id := range ids {
		// The connection may have ended meanwhile.
		if _, err := env.db.ExecContext(
			env.ctx,
			fmt.Sprintf("KILL CONNECTION %d", id),
		); err == nil {
			n++
		}
	}
	return n, nil
}

// deadlocks causes deadlocks: it locks open fires in the reverse of the services' order. Its
// transactions are too heavy for the server to choose them as victim.
func deadlocks(d time.Duration) func(*Environment) error {
	return func(env *Environment) error {
		if _, err := env.db.ExecContext(
			env.ctx,
			"CREATE TABLE ballast (id INT PRIMARY KEY AUTO_INCREMENT, x INT) ENGINE=InnoDB",
		); err != nil {
			return fmt.Errorf("creating a table: %w", err)
		}
		err := env.inject("deadlocks in MariaDB", outageTarget, func(f *Fault) (string, error) {
			before, err := env.statusVariable("Innodb_deadlocks")
			if err != nil {
				return "", err
			}
			for began := time.Now(); time.Since(began) < d; clock.Pause(env.ctx, 50*time.Millisecond) {
				_ = env.deadlockOnce() // this transaction may be the victim
			}
			after, err := env.statusVariable("Innodb_deadlocks")
			f.markEnd()
			if err == nil && after == before {
				err = errors.New("no deadlock happened")
			}
			return fmt.Sprintf("the server counts %d deadlocks", after-before), err
		})
		clock.Pause(env.ctx, env.recoveryWait())
		return err
	}
}

// deadlockOnce locks fires one by one, against the order of their keys, at the start of a full
// second. At that time executors claim the fires of two seconds later and record those of this
// second.
func (env *Environment) deadlockOnce() error {
	ctx, cancel := context.WithTimeout(env.ctx, 3*time.Second)
	defer cancel()
	tx, err := env.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(
		ctx,
		"INSERT INTO ballast (x) SELECT 1 FROM seq_1_to_2000",
	); err != nil {
		return err
	}
	second := time.Now().Truncate(time.Second).Add(time.Second)
	clock.Pause(ctx, time.Until(second.Add(-20*time.Millisecond)))
	for _, due := range []time.Time{second.Add(2 * time.Second), second} {
		keys, err := fireKeys(ctx, tx, due)
		if err != nil {
			return err
		}
		for _, id := range keys {
			if _, err := tx.ExecContext(
				ctx,
				"SELECT 1 FROM fires WHERE due_ms = ? AND timer_id = ? AND series = 0 FOR UPDATE",
				due.UnixMilli(),
				id,
			); err != nil {
				return err
			}
		}
	}
	return nil
}

// fireKeys returns the timers that have an open fire at an instant, in descending order.
func fireKeys(ctx context.Context, tx *sql.Tx, due time.Time) ([]int64, error) {
	rows, err := tx.QueryContext(
		ctx,
		"SELECT timer_id FROM fires WHERE due_ms = ? ORDER BY timer_id DESC LIMIT 200",
		due.UnixMilli(),
	)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (env *Environment) statusVariable(name string) (int64, error) {
	var n int64
	row := env.db.QueryRowContext(
		env.ctx,
		"SELECT variable_value FROM information_schema.global_status WHERE variable_name = ?",
		strings.ToUpper(name),
	)
	if err := row.Scan(&n); err != nil {
		return 0, fmt.Errorf("reading the server's %s: %w", name, err)
	}
	return n, nil
}

// lostCommits breaks connections to the database just after a COMMIT: it takes effect, and the
// client does not learn of it.
func lostCommits(d time.Duration) func(*Environment) error {
	return func(env *Environment) error {
		err := env.inject("answers to COMMIT lost", outageTarget, func(f *Fault) (string, error) {
			before := env.commitProxy.dropped()
			env.commitProxy.dropAnswers(20)
			clock.Pause(env.ctx, d)
			env.commitProxy.dropAnswers(0)
			f.markEnd()
			n := env.commitProxy.dropped() - before
			if n == 0 {
				return "", errors.New("no commit passed the proxy")
			}
			return fmt.Sprintf("%d commits took effect without an answer", n), nil
		})
		clock.Pause(env.ctx, env.recoveryWait())
		return err
	}
}
