package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
)

const (
	// Limits of a batch of timers. The API takes 1,000 items and 2 MiB.
	batchItems = 500
	batchBytes = 1 << 20
	// applyConcurrency limits the requests at once of what has no batch.
	applyConcurrency = 8
)

// applied is what became of a definition.
type applied struct {
	change

	err error // why this one was refused, as a request of its own would say
}

// applyTimers gives timers their definitions, batch by batch, and calls each for every batch with
// the results in their order. It stops if a whole batch fails or each does. If it dies halfway, some
// are applied, and a repetition goes on.
func (t *tool) applyTimers(
	ctx context.Context,
	api *client.Client,
	timers []*manifest.Manifest,
	each func([]*manifest.Manifest, []applied) error,
) error {
	was, err := currentTimers(ctx, api, timers)
	if err != nil {
		return err
	}
	for len(timers) > 0 {
		n, err := batchLength(timers)
		if err != nil {
			return err
		}
		done, err := t.applyBatch(ctx, api, timers[:n], was)
		if err != nil {
			return err
		}
		if err := each(timers[:n], done); err != nil {
			return err
		}
		timers = timers[n:]
	}
	return nil
}

// batchLength returns how many of the timers fit into one request. They are of one app, so that a
// refusal of the app says which.
func batchLength(timers []*manifest.Manifest) (int, error) {
	size := 0
	for n, m := range timers {
		data, err := json.Marshal(m.Body)
		if err != nil {
			return 0, fmt.Errorf("encoding %s: %w", m.Name, err)
		}
		size += len(data) + 1
		if n > 0 && (n == batchItems || size > batchBytes || m.App != timers[0].App) {
			return n, nil
		}
	}
	return len(timers), nil
}

// applyBatch writes one batch. What the changes report was read before: another caller's change in
// between is overwritten, as by any apply, and not part of the difference.
func (t *tool) applyBatch(
	ctx context.Context,
	api *client.Client,
	timers []*manifest.Manifest,
	was map[timerKey]client.Object,
) ([]applied, error) {
	results, refused, err := sendBatch(ctx, api, timers)
	if err != nil {
		return nil, err
	}
	done := make([]applied, len(timers))
	var eg errgroup.Group
	eg.SetLimit(applyConcurrency)
	for i, m := range timers {
		if refused[i] != nil {
			done[i].err = refused[i]
			continue
		}
		eg.Go(func() error {
			done[i].change, done[i].err = t.changeOf(ctx, api, m, was[keyOf(m)], results[i])
			return nil
		})
	}
	return done, eg.Wait() //nolint:wrapcheck // the results have the errors
}

// sendBatch writes timers and returns a result or an error for each. The API refuses a whole batch,
// and writes nothing, if a field of one item has a wrong type or name: sendBatch sends the other
// items again.
func sendBatch(
	ctx context.Context, api *client.Client, timers []*manifest.Manifest,
) (results []client.Object, refused []error, err error) {
	results, refused = make([]client.Object, len(timers)), make([]error, len(timers))
	for {
		var items []client.Object
		var places []int // of the items among the timers
		for i, m := range timers {
			if refused[i] == nil {
				items, places = append(items, m.Body), append(places, i)
			}
		}
		if len(items) == 0 {
			return results, refused, nil
		}
		batch := client.Object{"items": items, "put": true}
		answer, err := api.Do(ctx, http.MethodPost, "/timers:batch", nil, batch)
		if err == nil {
			got := answer.Objects("items")
			if len(got) != len(items) {
				return nil, nil, fmt.Errorf(
					"applying: the API answered %d of %d items", len(got), len(items))
			}
			for n, i := range places {
				results[i] = got[n]
			}
			return results, refused, nil
		}
		wrong := client.ItemErrors(err)
		for n, e := range wrong {
			if n < 0 || n >= len(places) {
				wrong = nil
				break
			}
			refused[places[n]] = e
		}
		if len(wrong) == 0 {
			return nil, nil, fmt.Errorf("%d timers of app %s: %w", len(timers), timers[0].App, err)
		}
	}
}

// changeOf returns what an item of a batch changed. It reads the timer again only for a difference
// that is printed, or where the version does not tell whether there is one.
func (t *tool) changeOf(
	ctx context.Context,
	api *client.Client,
	m *manifest.Manifest,
	was, result client.Object,
) (change, error) {
	done := change{kind: string(m.Kind), app: m.App, name: m.Name, verb: verbChanged}
	if problem := result.Object("error"); problem != nil {
		return done, client.ErrorOf(problem)
	}
	status := m.Body.Text("status")
	done.note = pauseNote(m, was)
	done.warnings = result.Objects("warnings")
	switch {
	case result.Text("result") == verbCreated:
		done.verb, done.note = verbCreated, inactiveNote(m, verbCreated)
	case was == nil || was.Text("version") != result.Text("version"):
		// A secret that was given again is another version, though nobody can see a difference.
	case status == "" || status == was.Text("status"):
		done.verb = verbUnchanged
		return done, nil
	default:
		done.verb = "" // only the status can differ
	}
	if t.printer.Human() && done.verb != "" {
		return done, nil
	}
	now, err := api.Get(ctx, "/timers/"+result.Text("id"), url.Values{"app": {m.App}})
	if err != nil && ctx.Err() == nil { // it is applied all the same
		fmt.Fprintf(
			t.errOut,
			"timer %s/%s: what changed could not be read: %v\n",
			m.App,
			m.Name,
			err,
		)
		done.verb = cmp.Or(done.verb, verbChanged)
		return done, nil
	}
	if err != nil {
		return done, err //nolint:wrapcheck // it says what the API answered
	}
	done.diff, err = difference(m.Kind, was, now)
	if done.verb == "" {
		done.verb = verbChanged
		if done.diff == "" {
			done.verb = verbUnchanged
		}
	}
	return done, err
}

// timerKey names a timer.
type timerKey struct{ app, name string }

func keyOf(m *manifest.Manifest) timerKey { return timerKey{m.App, m.Name} }

// currentTimers returns the timers that exist. For many of one app it lists the app's timers, as
// long as the pages are fewer than a tenth of the timers that it looks for. It reads the others by
// name.
func currentTimers(
	ctx context.Context,
	api *client.Client,
	timers []*manifest.Manifest,
) (map[timerKey]client.Object, error) {
	missing := make(map[string]map[string]bool) // names by app
	for _, m := range timers {
		if missing[m.App] == nil {
			missing[m.App] = make(map[string]bool)
		}
		missing[m.App][m.Name] = true
	}
	found := make(map[timerKey]client.Object)
	for app, names := range missing {
		if err := listTimers(ctx, api, app, names, found); err != nil {
			return nil, err
		}
	}
	var left []*manifest.Manifest
	for _, m := range timers {
		if missing[m.App][m.Name] {
			left = append(left, m)
		}
	}
	read := make([]client.Object, len(left))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(applyConcurrency)
	for i, m := range left {
		eg.Go(func() (err error) {
			read[i], err = current(ctx, api, m)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err //nolint:wrapcheck // it says what the API answered
	}
	for i, m := range left {
		if read[i] != nil {
			found[keyOf(m)] = read[i]
		}
	}
	return found, nil
}

// errEnough ends a list early.
var errEnough = errors.New("enough was read")

// listTimers finds timers of an app by listing, and removes their names. After the last page it
// removes all: the others do not exist.
func listTimers(
	ctx context.Context,
	api *client.Client,
	app string,
	names map[string]bool,
	found map[timerKey]client.Object,
) error {
	const namesPerPage = 10
	pages := len(names) / namesPerPage
	if pages == 0 {
		return nil
	}
	err := api.Pages(
		ctx,
		"/timers",
		url.Values{"app": {app}},
		0,
		func(items []client.Object) error {
			for _, tm := range items {
				if name := tm.Text("name"); names[name] {
					delete(names, name)
					found[timerKey{app, name}] = tm
				}
			}
			if pages--; pages == 0 || len(names) == 0 {
				return errEnough
			}
			return nil
		},
	)
	if err == nil {
		clear(names)
		return nil
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
