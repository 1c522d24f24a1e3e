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

func mysqlErrors(w *Environment) error {
	return inTurn(
		w,
		killConnections(10*time.Second),
		deadlocks(15*time.Second),
		lostCommits(15*time.Second),
	)
}

// killConnections kills all connections of the services to the database, once a second.
func killConnections(d time.Duration) func(*Environment) error {
	return func(w *Environment) error {
		err := w.befall(
			"MariaDB kills all connections, each second",
			outageEnded,
			func(f *Fault) (string, error) {
				total := 0
				for began := time.Now(); time.Since(began) < d; clock.Pause(w.ctx, time.Second) {
					n, err := w.killOnce()
					if err != nil {
						return "", err
					}
					total += n
				}
				f.over()
				if total == 0 {
					return "", errors.New("there was no connection to kill")
				}
				return fmt.Sprintf("%d connections killed", total), nil
			},
		)
		clock.Pause(w.ctx, w.settled())
		return err
	}
}

func (w *Environment) killOnce() (int, error) {
	rows, err := w.db.QueryContext(
		w.ctx,
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
		// it may have ended meanwhile.
		if _, err := w.db.ExecContext(w.ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err == nil {
			n++
		}
	}
	return n, nil
}

// deadlocks locks open fires against the order in which the services do, in transactions too heavy
// for the server to choose as its victim.
func deadlocks(d time.Duration) func(*Environment) error {
	return func(w *Environment) error {
		if _, err := w.db.ExecContext(
			w.ctx,
			"CREATE TABLE ballast (id INT PRIMARY KEY AUTO_INCREMENT, x INT) ENGINE=InnoDB",
		); err != nil {
			return fmt.Errorf("making a table: %w", err)
		}
		err := w.befall("deadlocks in MariaDB", outageEnded, func(f *Fault) (string, error) {
			before, err := w.status("Innodb_deadlocks")
			if err != nil {
				return "", err
			}
			for began := time.Now(); time.Since(began) < d; clock.Pause(w.ctx, 50*time.Millisecond) {
				_ = w.tangle() // it may be the victim itself
			}
			after, err := w.status("Innodb_deadlocks")
			f.over()
			if err == nil && after == before {
				err = errors.New("no deadlock happened")
			}
			return fmt.Sprintf("the server counts %d deadlocks", after-before), err
		})
		clock.Pause(w.ctx, w.settled())
		return err
	}
}

// tangle waits for a full second, when the fires of the second after next are claimed and those of
// this one are recorded, and locks these against the order of their keys, one by one.
func (w *Environment) tangle() error {
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
	defer cancel()
	tx, err := w.db.BeginTx(ctx, nil)
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

// fireKeys returns the timers with an open fire at an instant, in descending order.
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

func (w *Environment) status(name string) (int64, error) {
	var n int64
	row := w.db.QueryRowContext(
		w.ctx,
		"SELECT variable_value FROM information_schema.global_status WHERE variable_name = ?",
		strings.ToUpper(name),
	)
	if err := row.Scan(&n); err != nil {
		return 0, fmt.Errorf("reading the server's %s: %w", name, err)
	}
	return n, nil
}

// lostCommits breaks connections to the database just after a COMMIT went over them: it takes
// effect, and nobody is told.
func lostCommits(d time.Duration) func(*Environment) error {
	return func(w *Environment) error {
		err := w.befall("answers to COMMIT lost", outageEnded, func(f *Fault) (string, error) {
			before := w.thief.lost()
			w.thief.steal(20)
			clock.Pause(w.ctx, d)
			w.thief.steal(0)
			f.over()
			n := w.thief.lost() - before
			if n == 0 {
				return "", errors.New("no commit came by")
			}
			return fmt.Sprintf("%d commits took effect without an answer", n), nil
		})
		clock.Pause(w.ctx, w.settled())
		return err
	}
}
