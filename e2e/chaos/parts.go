package chaos

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/bus"
)

// flush empties Redis; the proof is that there was something and that the server counts the call.
func (w *World) flush() (proof string, err error) {
	before, err := w.rdb.DBSize(w.ctx).Result()
	if err != nil {
		return "", fmt.Errorf("looking into Redis: %w", err)
	}
	if err := w.rdb.FlushAll(w.ctx).Err(); err != nil {
		return "", fmt.Errorf("emptying Redis: %w", err)
	}
	if before == 0 {
		return "", errors.New("there was nothing in Redis")
	}
	return fmt.Sprintf("%d keys are gone", before), nil
}

func redisFaults(outage time.Duration) func(*World) error {
	return func(w *World) error {
		if err := w.befall("Redis FLUSHALL", redisWiped, func(*Fault) (string, error) { return w.flush() }); err != nil {
			return err
		}
		pause(w.ctx, w.settled())
		return inTurn(w, redisOutage(0), redisOutage(outage))
	}
}

func redisOutage(d time.Duration) func(*World) error {
	return func(w *World) error { return w.outage(redisServer, "Redis", d, outageEnded) }
}

// outage ends a server, by SIGTERM for a restart and by SIGKILL for an outage that lasts, and starts it again.
func (w *World) outage(name, called string, d time.Duration, t Target) error {
	what := "restart of " + called
	if d > 0 {
		what = fmt.Sprintf("%s away for %s", called, d)
	}
	err := w.befall(what, t, func(f *Fault) (string, error) {
		before, err := w.srv.pid(name)
		if err != nil {
			return "", err
		}
		if d == 0 {
			err = w.srv.down(w.ctx, name)
		} else {
			err = w.srv.signal(w.ctx, name, syscall.SIGKILL)
		}
		if err != nil {
			return "", err
		}
		pause(w.ctx, d)
		if running(before) {
			return "", fmt.Errorf("%s still runs", called)
		}
		if err := w.srv.up(w.ctx, name); err != nil {
			return "", err
		}
		after, err := w.srv.pid(name)
		f.over()
		return fmt.Sprintf("process %d became %d after %.1f s", before, after, f.outage().Seconds()), err
	})
	pause(w.ctx, w.toCatchUp())
	return err
}

// toCatchUp is how long a scenario waits after an outage, to see by when it is caught up.
func (w *World) toCatchUp() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.faults[len(w.faults)-1]
	return max(last.outage()/3, w.settled())
}

func flushAndKill(w *World) error {
	p := w.replica(cluster.Executor, 1)
	err := w.befall("FLUSHALL and SIGKILL of one executor", redisWiped, func(*Fault) (string, error) {
		flushed, err := w.flush()
		if err != nil {
			return "", err
		}
		gone, err := w.kill(p)
		return flushed + "; " + gone, err
	})
	if err != nil {
		return err
	}
	pause(w.ctx, w.settled())
	err = w.start(p)
	pause(w.ctx, w.settled()/2)
	return err
}

func pulsarFaults(outage time.Duration) func(*World) error {
	return func(w *World) error {
		if err := w.outage(pulsarServer, "Pulsar", 0, brokerBack); err != nil {
			return err
		}
		if err := w.outage(pulsarServer, "Pulsar", outage, brokerBack); err != nil {
			return err
		}
		return loseTopic(w)
	}
}

// loseTopic deletes a task topic, with its subscription and what nobody has read.
func loseTopic(w *World) error {
	err := w.befall("task topic deleted", brokerBack, func(*Fault) (string, error) {
		if err := w.shared.DeleteTopic(bus.TasksNormal); err != nil {
			return "", err
		}
		return "the broker confirmed the deletion of " + string(bus.TasksNormal), nil
	})
	pause(w.ctx, 2*w.settled())
	return err
}

func mysqlOutages(outage time.Duration) func(*World) error {
	return func(w *World) error { return inTurn(w, mysqlOutage(0), mysqlOutage(outage)) }
}

func mysqlOutage(d time.Duration) func(*World) error {
	return func(w *World) error { return w.outage(mysqlServer, "MariaDB", d, outageEnded) }
}

// throughProxy adds, to the ports of a process, those by which the proxy before the endpoint passes calls on: it does not tell whose.
func (w *World) throughProxy(ports map[uint16]bool) (map[uint16]bool, error) {
	_, to, _ := net.SplitHostPort(w.rcv.Addr())
	own, err := cluster.OwnPortsTo(to)
	maps.Copy(ports, own)
	return ports, err
}

// eachLink walks over every way from a service to a server, and to the endpoint.
func (w *World) eachLink(do func(name string, p *cluster.Process, part cluster.Part, proxies []*cluster.Proxy) error) error {
	for _, r := range cluster.Roles() {
		p := w.replica(r, 0)
		for _, part := range []cluster.Part{cluster.MySQL, cluster.Redis, cluster.Pulsar} {
			proxies := w.links[p.Name][part]
			n, err := connections(proxies)
			if err != nil {
				return err
			}
			if n == 0 {
				w.printf("%s has no connection to %s", p.Name, part)
				continue
			}
			if err := do(fmt.Sprintf("%s and %s", r, part), p, part, proxies); err != nil {
				return err
			}
			if err := w.ctx.Err(); err != nil {
				return err
			}
		}
	}
	return do("executors and the endpoint", nil, "", []*cluster.Proxy{w.far})
}

func connections(proxies []*cluster.Proxy) (int, error) {
	sum := 0
	for _, p := range proxies {
		n, err := p.Connections()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func heal(proxies []*cluster.Proxy) error {
	var err error
	for _, p := range proxies {
		err = errors.Join(err, p.Heal())
	}
	return err
}

// linksCut breaks each way for d. An executor without its database goes on calling until it no longer trusts its session, and cannot
// record what was answered: those calls come again.
func linksCut(d time.Duration) func(*World) error {
	return func(w *World) error {
		return w.eachLink(func(name string, p *cluster.Process, part cluster.Part, proxies []*cluster.Proxy) error {
			err := w.befall("no way between "+name, outageEnded, func(f *Fault) (string, error) {
				before, err := connections(proxies)
				if err != nil {
					return "", err
				}
				if before == 0 {
					return "", errors.New("there was no connection to break")
				}
				at := time.Now()
				for _, x := range proxies {
					x.Cut()
				}
				w.excuse(p, part, at)
				pause(w.ctx, d)
				after, err := connections(proxies)
				if err == nil && after > 0 {
					err = errors.New("connections survived")
				}
				err = errors.Join(err, heal(proxies))
				f.over()
				return fmt.Sprintf("%d connections broke", before), err
			})
			pause(w.ctx, 8*time.Second)
			return err
		})
	}
}

// excuse enters what a cut that began at an instant explains: calls of an executor that has lost its database, and answers that the way to the
// endpoint lost.
func (w *World) excuse(p *cluster.Process, part cluster.Part, at time.Time) {
	switch {
	case p == nil:
		w.cut(ledger.Cut{At: at, Until: time.Now(), Recording: recording})
	case isExecutor(p) && part == cluster.MySQL:
		w.cut(ledger.Cut{At: at, Until: time.Now().Add(trusted), Recording: recording})
	}
}

func linksSlow(d, by time.Duration) func(*World) error {
	return func(w *World) error {
		return w.eachLink(func(name string, _ *cluster.Process, _ cluster.Part, proxies []*cluster.Proxy) error {
			err := w.befall(fmt.Sprintf("%s more between %s", by, name), none, func(f *Fault) (string, error) {
				n, err := connections(proxies)
				if err != nil {
					return "", err
				}
				for _, x := range proxies {
					if err := x.Slow(by); err != nil {
						return "", err
					}
				}
				pause(w.ctx, d)
				f.over()
				return fmt.Sprintf("%d connections are slow", n), heal(proxies)
			})
			pause(w.ctx, 5*time.Second)
			return err
		})
	}
}

func mysqlErrors(w *World) error {
	return inTurn(w, killConnections(10*time.Second), deadlocks(15*time.Second), lostCommits(15*time.Second))
}

// killConnections kills all connections of the services to the database, once a second.
func killConnections(d time.Duration) func(*World) error {
	return func(w *World) error {
		err := w.befall("MariaDB kills all connections, each second", outageEnded, func(f *Fault) (string, error) {
			total := 0
			for began := time.Now(); time.Since(began) < d; pause(w.ctx, time.Second) {
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
		})
		pause(w.ctx, w.settled())
		return err
	}
}

func (w *World) killOnce() (int, error) {
	rows, err := w.db.QueryContext(w.ctx, `SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()`)
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
		if _, err := w.db.ExecContext(w.ctx, fmt.Sprintf("KILL CONNECTION %d", id)); err == nil { // it may have ended meanwhile
			n++
		}
	}
	return n, nil
}

// deadlocks locks open fires against the order in which the services do, in transactions too heavy for the server to choose as its victim.
func deadlocks(d time.Duration) func(*World) error {
	return func(w *World) error {
		if _, err := w.db.ExecContext(w.ctx, "CREATE TABLE ballast (id INT PRIMARY KEY AUTO_INCREMENT, x INT) ENGINE=InnoDB"); err != nil {
			return fmt.Errorf("making a table: %w", err)
		}
		err := w.befall("deadlocks in MariaDB", outageEnded, func(f *Fault) (string, error) {
			before, err := w.status("Innodb_deadlocks")
			if err != nil {
				return "", err
			}
			for began := time.Now(); time.Since(began) < d; pause(w.ctx, 50*time.Millisecond) {
				_ = w.tangle() // it may be the victim itself
			}
			after, err := w.status("Innodb_deadlocks")
			f.over()
			if err == nil && after == before {
				err = errors.New("no deadlock happened")
			}
			return fmt.Sprintf("the server counts %d deadlocks", after-before), err
		})
		pause(w.ctx, w.settled())
		return err
	}
}

// tangle waits for a full second, when the fires of the second after next are claimed and those of this one are recorded, and locks these
// against the order of their keys, one by one.
func (w *World) tangle() error {
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
	defer cancel()
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "INSERT INTO ballast (x) SELECT 1 FROM seq_1_to_2000"); err != nil {
		return err
	}
	second := time.Now().Truncate(time.Second).Add(time.Second)
	pause(ctx, time.Until(second.Add(-20*time.Millisecond)))
	for _, due := range []time.Time{second.Add(2 * time.Second), second} {
		keys, err := fireKeys(ctx, tx, due)
		if err != nil {
			return err
		}
		for _, id := range keys {
			if _, err := tx.ExecContext(ctx, "SELECT 1 FROM fires WHERE due_ms = ? AND timer_id = ? AND series = 0 FOR UPDATE", due.UnixMilli(), id); err != nil {
				return err
			}
		}
	}
	return nil
}

// fireKeys returns the timers with an open fire at an instant, in descending order.
func fireKeys(ctx context.Context, tx *sql.Tx, due time.Time) ([]int64, error) {
	rows, err := tx.QueryContext(ctx, "SELECT timer_id FROM fires WHERE due_ms = ? ORDER BY timer_id DESC LIMIT 200", due.UnixMilli())
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

func (w *World) status(name string) (int64, error) {
	var n int64
	row := w.db.QueryRowContext(w.ctx, "SELECT variable_value FROM information_schema.global_status WHERE variable_name = ?", strings.ToUpper(name))
	if err := row.Scan(&n); err != nil {
		return 0, fmt.Errorf("reading the server's %s: %w", name, err)
	}
	return n, nil
}

// lostCommits breaks connections to the database just after a COMMIT went over them: it takes effect, and nobody is told.
func lostCommits(d time.Duration) func(*World) error {
	return func(w *World) error {
		err := w.befall("answers to COMMIT lost", outageEnded, func(f *Fault) (string, error) {
			before := w.thief.lost()
			w.thief.steal(20)
			pause(w.ctx, d)
			w.thief.steal(0)
			f.over()
			n := w.thief.lost() - before
			if n == 0 {
				return "", errors.New("no commit came by")
			}
			return fmt.Sprintf("%d commits took effect without an answer", n), nil
		})
		pause(w.ctx, w.settled())
		return err
	}
}

// fullDisk fills MariaDB's disk until it refuses inserts (error 1114), and lets the server abort on it: by itself, as it does when it cannot write
// what it must, or by a signal.
func fullDisk(w *World) error {
	dir := w.srv.dirs[mysqlServer]
	ballast := filepath.Join(dir, "ballast")
	err := w.befall("MariaDB's disk is full, and it aborts", outageEnded, func(f *Fault) (string, error) {
		refused, err := w.untilFull(ballast)
		if err != nil {
			return "", err
		}
		pause(w.ctx, 10*time.Second)
		aborted := "it aborted by itself"
		if _, err := w.srv.pid(mysqlServer); err == nil {
			aborted = "it got SIGABRT"
			if err := w.srv.signal(w.ctx, mysqlServer, syscall.SIGABRT); err != nil {
				return "", err
			}
		}
		pause(w.ctx, 5*time.Second)
		if err := os.Remove(ballast); err != nil {
			return "", fmt.Errorf("making room: %w", err)
		}
		if err := w.srv.up(w.ctx, mysqlServer); err != nil {
			return "", err
		}
		f.over()
		told := w.inLogs("is full")
		if told+refused == 0 {
			return "", errors.New("nobody was told that a table is full")
		}
		return fmt.Sprintf("error 1114 for the harness %d times, for services at least %d times; %s", refused, told, aborted), nil
	})
	pause(w.ctx, w.toCatchUp())
	return err
}

// fill writes a file until its disk has no room.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("filling a disk: %w", err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; block = block[:len(block)/2] {
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("filling a disk: %w", err)
		}
	}
	return nil
}

// untilFull fills the disk and inserts until the server says error 1114, which is also what the services then meet, or is gone. It returns how
// often it said so.
func (w *World) untilFull(ballast string) (refused int, err error) {
	ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
	defer cancel()
	if _, err := w.db.ExecContext(ctx, "CREATE TABLE filler (id INT PRIMARY KEY AUTO_INCREMENT, x LONGBLOB) ENGINE=InnoDB"); err != nil {
		return 0, fmt.Errorf("making a table: %w", err)
	}
	if err := fill(ballast); err != nil {
		return 0, err
	}
	for {
		_, err := w.db.ExecContext(ctx, "INSERT INTO filler (x) VALUES (REPEAT('x', 100000))")
		if isFull(err) {
			return 1, nil
		}
		if err != nil {
			_, gone := w.srv.pid(mysqlServer)
			if gone == nil && ctx.Err() != nil {
				return 0, fmt.Errorf("filling a table: %w", err)
			}
			if gone != nil {
				return 0, nil // it aborted at once
			}
		}
	}
}

func isFull(err error) bool {
	const tableFull, diskFull = 1114, 1021
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == tableFull || e.Number == diskFull)
}

// inLogs counts the lines of the services' logs that have a text.
func (w *World) inLogs(text string) int {
	n := 0
	for _, p := range w.c.Processes() {
		f, err := os.Open(p.Log())
		if err != nil {
			continue
		}
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			if strings.Contains(sc.Text(), text) {
				n++
			}
		}
		_ = f.Close()
	}
	return n
}

// overload gives the deployment three times what it can run for two minutes: crons that are due in each second of two given minutes.
func overload(w *World) error {
	rate := 3 * w.opts.Capacity
	from := time.Now().Add(time.Duration(rate/100) * time.Second).Truncate(time.Minute).Add(time.Minute) // they have to be made before
	if err := w.traffic.burst(w.ctx, rate, from, 2); err != nil {
		return err
	}
	pause(w.ctx, time.Until(from))
	return w.befall(fmt.Sprintf("%d fires/s, three times what can run", rate), none, func(f *Fault) (string, error) {
		var behind []int
		for range 12 {
			pause(w.ctx, 10*time.Second)
			n, err := w.open(time.Now())
			if err != nil {
				return "", err
			}
			behind = append(behind, n)
			w.printf("  %d open fires are past due", n)
		}
		f.over()
		most := slices.Max(behind)
		if most < w.opts.Capacity*10 {
			return "", fmt.Errorf("never were more than %d fires past due: that was no overload", most)
		}
		return fmt.Sprintf("up to %d open fires past due", most), nil
	})
}
