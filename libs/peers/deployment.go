package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
)

const (
	// compareEvery is how often a process tells others over Redis and Pulsar which database it uses.
	compareEvery   = time.Minute
	compareTimeout = 2 * time.Second
	// forgetAfter is how long a notice of another database counts.
	forgetAfter = 3 * compareEvery

	propDatabase = "database"
	propProcess  = "process"
)

// EncryptionKeys is the shared setting with id and fingerprint of each encryption key, the first one
// first. It need not be the same: every process must have the first key of every other.
const EncryptionKeys = "encryption-keys"

// Deployment is what this process knows of its deployment, for operators.
type Deployment struct {
	Database  string   `json:"database"`  // random name of the database
	Processes []string `json:"processes"` // names of the alive processes on it
}

// Deployment returns the state as of the last renewal.
func (w *Watch) Deployment() Deployment {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := Deployment{Database: w.known.Database}
	for i := range w.known.Processes {
		d.Processes = append(d.Processes, w.known.Processes[i].Name)
	}
	return d
}

// CheckDeployment returns an error while the processes do not belong together: those on this
// database differ in settings, or another database is used with this Redis or Pulsar. It must not
// decide the readiness of a process: settings change one process after the other, and nobody knows
// which of two databases is the wrong one.
func (w *Watch) CheckDeployment(context.Context) error {
	return errors.Join(w.conflicts()...)
}

func (w *Watch) conflicts() (all []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all = differences(w.known.Processes)
	if w.inRedis != "" {
		all = append(all, fmt.Errorf(
			"redis-prefix: expected one database for each prefix, found another one in use by %s: "+
				"compare mysql-dsn and redis-prefix of both",
			w.inRedis,
		))
	}
	var others []string
	for name, at := range w.inPulsar {
		if time.Since(at) < forgetAfter {
			others = append(others, name)
		} else {
			delete(w.inPulsar, name)
		}
	}
	if slices.Sort(others); len(others) > 0 {
		all = append(all, fmt.Errorf(
			"pulsar-namespace: expected one database for each namespace, found another one in use by %s: "+
				"compare mysql-dsn and pulsar-namespace of both",
			strings.Join(others, ", "),
		))
	}
	return all
}

// differences returns the settings in which processes differ, in order of name.
func differences(processes []store.Process) (all []error) {
	settings := map[string]map[string][]string{} // names of processes by setting and value
	for i := range processes {
		p := &processes[i]
		for name, value := range p.Settings {
			if settings[name] == nil {
				settings[name] = map[string][]string{}
			}
			settings[name][value] = append(settings[name][value], p.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		values := settings[name]
		switch {
		case len(values) == 1:
		case name == EncryptionKeys:
			all = append(all, missingKeys(values)...)
		default:
			all = append(all, fmt.Errorf(
				"%s: expected the same value in all processes, found %s: set it alike and restart those",
				name,
				describe(values),
			))
		}
	}
	return all
}

// missingKeys returns the keys that encrypt in one process and that others do not have.
func missingKeys(values map[string][]string) (all []error) {
	without := map[string][]string{} // names of processes by the key that they miss
	for first := range values {
		key, _, _ := strings.Cut(first, ",")
		for keys, names := range values {
			if key != "" && !slices.Contains(strings.Split(keys, ","), key) {
				without[key] = append(without[key], names...)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(without)) {
		names := without[key]
		slices.Sort(names)
		all = append(all, fmt.Errorf(
			"%s: expected the key %q in all processes, because one encrypts with it, found it missing in %s: add it there",
			EncryptionKeys,
			key,
			strings.Join(slices.Compact(names), ", "),
		))
	}
	return all
}

// describe returns values with the processes that have them, the most frequent value first.
func describe(values map[string][]string) string {
	order := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(values[b]), len(values[a])), cmp.Compare(a, b))
	})
	parts := make([]string, len(order))
	for i, value := range order {
		parts[i] = fmt.Sprintf("%q (%s)", value, strings.Join(values[value], ", "))
	}
	return strings.Join(parts, " and ")
}

// compare tells other processes over Redis and Pulsar which database this one uses. What is not
// told now is told the next time.
func (w *Watch) compare(ctx context.Context) {
	w.mu.Lock()
	database := w.known.Database
	w.mu.Unlock()
	if w.opts.ClaimPrefix != nil {
		call, cancel := context.WithTimeout(ctx, compareTimeout)
		defer cancel()
		other, err := w.opts.ClaimPrefix(call, database, w.opts.Name)
		if err != nil {
			w.log.Debug().Err(err).Msg("database not compared over Redis")
		} else {
			w.mu.Lock()
			w.inRedis = other
			w.mu.Unlock()
		}
	}
	if w.opts.Publish != nil {
		call, cancel := context.WithTimeout(ctx, compareTimeout)
		defer cancel()
		err := w.opts.Publish(call, bus.Message{
			Key:        w.opts.Name,
			Properties: map[string]string{propDatabase: database, propProcess: w.opts.Name},
		})
		if err != nil {
			w.log.Debug().Err(err).Msg("database not compared over Pulsar")
		}
	}
}

// Heard reports whether a message is the notice of a process, and if so, takes it into account.
func (w *Watch) Heard(m bus.Message) bool {
	database := m.Properties[propDatabase]
	if database == "" {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known.Database != "" && database != w.known.Database {
		w.inPulsar[m.Properties[propProcess]] = time.Now()
		w.answer = true
	}
	return true
}

// takeAnswer reports whether the next renewal tells others of the database early, because one of
// them may be new.
func (w *Watch) takeAnswer() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := w.answer
	w.answer = false
	return answer
}

// logConflicts logs each conflict when it begins, and once when the last has ended. Processes that
// join or leave a conflict are no news.
func (w *Watch) logConflicts() {
	before := w.logged
	w.logged = make(map[string]bool)
	for _, err := range w.conflicts() {
		what, _, _ := strings.Cut(err.Error(), ", found")
		if w.logged[what] = true; !before[what] {
			w.log.Error().Err(err).Msg("processes do not belong together")
		}
	}
	if len(w.logged) == 0 && len(before) > 0 {
		w.log.Info().Msg("all processes of the deployment belong together")
	}
}
