package chaos

import (
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// Scenario is a list of faults under load.
type Scenario struct {
	Name  string
	About string // a line of the table
	// Do injects the faults one after the other and waits after each for the recovery.
	Do func(env *Environment) error
	// NoRepeats means that no fault of the scenario excuses a second call.
	NoRepeats bool
	// NoTargets removes the recovery targets: this load waits by design, and other scenarios
	// measure the same faults.
	NoTargets bool
	Rate      int               // fires per second; 0 is the run's
	Env       map[string]string // settings of the services, in addition to the run's
	// Bin returns the directory of the programs to start with; nil is the run's.
	Bin func(o *Options) string
	// Next means that the scenario needs the programs of a release with a later schema.
	Next bool
	// Disk puts MariaDB on its own small disk.
	Disk bool
	// Clusters are the servers that are clusters, with nodes that fail.
	Clusters cluster.Redundancy
	// SettleTime is additional time for open fires at the end.
	SettleTime time.Duration
}

// recoveryWait is how long a scenario waits after a fault before the next one.
const (
	recoveryWait      = 10 * time.Second
	recoveryWaitShort = 6 * time.Second
)

func (env *Environment) recoveryWait() time.Duration {
	if env.short {
		return recoveryWaitShort
	}
	return recoveryWait
}

// Scenarios returns all scenarios, in the order of the table.
func Scenarios() []*Scenario {
	return []*Scenario{
		{Name: "kill", About: "SIGKILL of one of each service, then of all at once", Do: kills},
		{
			Name:  "freeze",
			About: "SIGSTOP of one of each service for 90 s, then SIGCONT",
			Do:    freezes,
		},
		{
			Name:  "schedulers",
			About: "all schedulers down for 5 min",
			Do:    downFor(cluster.Scheduler, 5*time.Minute),
		},
		{
			Name:  "migrators",
			About: "all migrators down for 60 s, longer than -expand-ahead (15 s)",
			Do:    downFor(cluster.Migrator, time.Minute),
			Env:   map[string]string{"CARILLON_EXPAND_AHEAD": "15s"},
		},
		{
			Name:  "redis",
			About: "Redis: FLUSHALL, restart, 30 s outage",
			Do:    redisFaults(30 * time.Second),
		},
		{
			Name:  "flush-and-kill",
			About: "FLUSHALL and SIGKILL of an executor at the same moment",
			Do:    flushAndKill,
		},
		{
			Name:  "pulsar",
			About: "Pulsar: restart, 60 s outage, task topic deleted",
			Do:    pulsarFaults(time.Minute),
		},
		{
			Name:      "mysql",
			About:     "MariaDB: restart and 60 s outage",
			Do:        mysqlOutages(time.Minute),
			NoRepeats: true,
		},
		{
			Name:  "mysql-errors",
			About: "MariaDB: killed connections, deadlocks, lost answers to COMMIT",
			Do:    mysqlErrors,
		},
		{
			Name:  "disk",
			About: "MariaDB's disk full, then the server aborts",
			Do:    fullDisk,
			Disk:  true,
		},
		{
			Name:  "links-cut",
			About: "each service cut off from each server for 10 s, and executors from the endpoint",
			Do:    linksCut(10 * time.Second),
		},
		{
			Name:  "links-slow",
			About: "300 ms more latency between each service and each server, and to the endpoint",
			Do:    linksSlow(10*time.Second, 300*time.Millisecond),
		},
		{
			Name:  "clocks",
			About: "clocks 2 s behind, 2 s ahead and jumping",
			Do:    clockFaults,
			Env:   map[string]string{"CARILLON_TEST_CLOCK": "true"},
		},
		{
			Name:      "policies",
			About:     "late, overlapping, chained and edited timers, while each service and the database fail",
			Do:        policies,
			NoTargets: true,
		},
		{
			Name:       "overload",
			About:      "three times the capacity for 2 min",
			Do:         overload,
			NoRepeats:  true,
			SettleTime: 15 * time.Minute,
		},
		{
			Name:      "rolling-restart",
			About:     "rolling restart of every service",
			Do:        rollingRestart,
			NoRepeats: true,
		},
		{
			Name:      "rolling-upgrade",
			About:     "rolling upgrade from the previous commit",
			Do:        rollingUpgrade,
			NoRepeats: true,
			Bin:       func(o *Options) string { return o.Previous },
		},
		{
			Name:      "rolling-schema",
			About:     "rolling upgrade to a release with a later schema, and back",
			Do:        upgradeAndBack,
			NoRepeats: true,
			Next:      true,
		},
	}
}

// Short returns the scenario that runs with the tests: the faults that are over soon, in one
// deployment.
func Short() *Scenario {
	return &Scenario{
		Name:  "short",
		About: "all short faults, in a minute and a half",
		Do: func(env *Environment) error {
			env.short = true
			return inSequence(
				env,
				killOne(
					cluster.Trigger,
					4*time.Second,
				),
				downFor(cluster.Trigger, 8*time.Second),
				freezeOne(cluster.Executor, 7*time.Second),
				flushAndKill,
				redisOutage(
					5*time.Second,
				),
				deleteTopic,
				killConnections(3*time.Second),
				mysqlOutage(8*time.Second),
				killAll,
			)
		},
	}
}

// inSequence runs functions one after the other until one fails.
func inSequence(env *Environment, all ...func(*Environment) error) error {
	for _, do := range all {
		if err := do(env); err != nil {
			return err
		}
		if err := env.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
