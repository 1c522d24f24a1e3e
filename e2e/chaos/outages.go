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

// flush empties Redis. Its proof is that Redis had keys, and that the server counts the command.
func (env *Environment) flush() (proof string, err error) {
	before, err := env.rdb.DBSize(env.ctx).Result()
	if err != nil {
		return "", fmt.Errorf("counting the keys in Redis: %w", err)
	}
	if err := env.rdb.FlushAll(env.ctx).Err(); err != nil {
		return "", fmt.Errorf("flushing Redis: %w", err)
	}
	if before == 0 {
		return "", errors.New("no keys in Redis")
	}
	return fmt.Sprintf("%d keys are gone", before), nil
}

func redisFaults(outage time.Duration) func(*Environment) error {
	return func(env *Environment) error {
		if err := env.inject(
			"Redis FLUSHALL",
			flushTarget,
			func(*Fault) (string, error) { return env.flush() },
		); err != nil {
			return err
		}
		clock.Pause(env.ctx, env.recoveryWait())
		return inSequence(env, redisOutage(0), redisOutage(outage))
	}
}

func redisOutage(d time.Duration) func(*Environment) error {
	return func(env *Environment) error { return env.injectOutage(redisServer, "Redis", d, outageTarget) }
}

// injectOutage stops a server and starts it again. It uses SIGTERM for a restart and SIGKILL for a
// longer outage.
func (env *Environment) injectOutage(name, called string, d time.Duration, t Target) error {
	what := "restart of " + called
	if d > 0 {
		what = fmt.Sprintf("%s down for %s", called, d)
	}
	err := env.inject(what, t, func(f *Fault) (string, error) {
		before, err := env.srv.pid(name)
		if err != nil {
			return "", err
		}
		if d == 0 {
			err = env.srv.down(env.ctx, name)
		} else {
			err = env.srv.signal(env.ctx, name, syscall.SIGKILL)
		}
		if err != nil {
			return "", err
		}
		clock.Pause(env.ctx, d)
		if running(before) {
			return "", fmt.Errorf("%s still runs", called)
		}
		if err := env.srv.up(env.ctx, name); err != nil {
			return "", err
		}
		after, err := env.srv.pid(name)
		f.markEnd()
		return fmt.Sprintf(
			"process %d became %d after %.1f s",
			before,
			after,
			f.outageLength().Seconds(),
		), err
	})
	clock.Pause(env.ctx, env.catchUpPause())
	return err
}

// catchUpPause returns how long a scenario waits after an outage for the fires to catch up.
func (env *Environment) catchUpPause() time.Duration {
	env.mu.Lock()
	defer env.mu.Unlock()
	last := env.faults[len(env.faults)-1]
	return max(last.outageLength()/3, env.recoveryWait())
}

func flushAndKill(env *Environment) error {
	p := env.replica(cluster.Executor, 1)
	err := env.inject(
		"FLUSHALL and SIGKILL of one executor",
		flushTarget,
		func(*Fault) (string, error) {
			flushed, err := env.flush()
			if err != nil {
				return "", err
			}
			gone, err := env.kill(p)
			return flushed + "; " + gone, err
		},
	)
	if err != nil {
		return err
	}
	clock.Pause(env.ctx, env.recoveryWait())
	err = env.start(p)
	clock.Pause(env.ctx, env.recoveryWait()/2)
	return err
}

func pulsarFaults(outage time.Duration) func(*Environment) error {
	return func(env *Environment) error {
		if err := env.injectOutage(pulsarServer, "Pulsar", 0, brokerTarget); err != nil {
			return err
		}
		if err := env.injectOutage(pulsarServer, "Pulsar", outage, brokerTarget); err != nil {
			return err
		}
		return deleteTopic(env)
	}
}

// deleteTopic deletes a task topic with its subscription and unread messages.
func deleteTopic(env *Environment) error {
	err := env.inject("task topic deleted", brokerTarget, func(*Fault) (string, error) {
		if err := env.directServers.DeleteTopic(bus.TasksNormal); err != nil {
			return "", err
		}
		return "the broker confirmed the deletion of " + string(bus.TasksNormal), nil
	})
	clock.Pause(env.ctx, 2*env.recoveryWait())
	return err
}

func mysqlOutages(outage time.Duration) func(*Environment) error {
	return func(env *Environment) error { return inSequence(env, mysqlOutage(0), mysqlOutage(outage)) }
}

func mysqlOutage(d time.Duration) func(*Environment) error {
	return func(env *Environment) error { return env.injectOutage(mysqlServer, "MariaDB", d, outageTarget) }
}
