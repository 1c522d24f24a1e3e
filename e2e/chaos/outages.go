package chaos

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
)

// flush empties Redis; the proof is that there was something and that the server counts the call.
func (w *Environment) flush() (proof string, err error) {
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

func redisFaults(outage time.Duration) func(*Environment) error {
	return func(w *Environment) error {
		if err := w.befall(
			"Redis FLUSHALL",
			redisWiped,
			func(*Fault) (string, error) { return w.flush() },
		); err != nil {
			return err
		}
		clock.Pause(w.ctx, w.settled())
		return inTurn(w, redisOutage(0), redisOutage(outage))
	}
}

func redisOutage(d time.Duration) func(*Environment) error {
	return func(w *Environment) error { return w.outage(redisServer, "Redis", d, outageEnded) }
}

// outage ends a server, by SIGTERM for a restart and by SIGKILL for an outage that lasts, and
// starts it again.
func (w *Environment) outage(name, called string, d time.Duration, t Target) error {
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
		clock.Pause(w.ctx, d)
		if running(before) {
			return "", fmt.Errorf("%s still runs", called)
		}
		if err := w.srv.up(w.ctx, name); err != nil {
			return "", err
		}
		after, err := w.srv.pid(name)
		f.over()
		return fmt.Sprintf(
			"process %d became %d after %.1f s",
			before,
			after,
			f.outage().Seconds(),
		), err
	})
	clock.Pause(w.ctx, w.toCatchUp())
	return err
}

// toCatchUp is how long a scenario waits after an outage, to see by when it is caught up.
func (w *Environment) toCatchUp() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.faults[len(w.faults)-1]
	return max(last.outage()/3, w.settled())
}

func flushAndKill(w *Environment) error {
	p := w.replica(cluster.Executor, 1)
	err := w.befall(
		"FLUSHALL and SIGKILL of one executor",
		redisWiped,
		func(*Fault) (string, error) {
			flushed, err := w.flush()
			if err != nil {
				return "", err
			}
			gone, err := w.kill(p)
			return flushed + "; " + gone, err
		},
	)
	if err != nil {
		return err
	}
	clock.Pause(w.ctx, w.settled())
	err = w.start(p)
	clock.Pause(w.ctx, w.settled()/2)
	return err
}

func pulsarFaults(outage time.Duration) func(*Environment) error {
	return func(w *Environment) error {
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
func loseTopic(w *Environment) error {
	err := w.befall("task topic deleted", brokerBack, func(*Fault) (string, error) {
		if err := w.shared.DeleteTopic(bus.TasksNormal); err != nil {
			return "", err
		}
		return "the broker confirmed the deletion of " + string(bus.TasksNormal), nil
	})
	clock.Pause(w.ctx, 2*w.settled())
	return err
}

func mysqlOutages(outage time.Duration) func(*Environment) error {
	return func(w *Environment) error { return inTurn(w, mysqlOutage(0), mysqlOutage(outage)) }
}

func mysqlOutage(d time.Duration) func(*Environment) error {
	return func(w *Environment) error { return w.outage(mysqlServer, "MariaDB", d, outageEnded) }
}
