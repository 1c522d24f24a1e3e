package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
)

// sayUnpruned says that an error keeps prune from what it deletes: a dry run without a deletion would
// look as if there was none to make.
func (t *tool) sayUnpruned(dryRun bool) {
	done := "was"
	if dryRun {
		done = "would be"
	}
	fmt.Fprintf(t.errOut, "--prune: nothing %s deleted, because not all could be applied\n", done)
}

// prune deletes the timers that are in no file, of the apps of which the files have timers. Calendars
// stay.
func (t *tool) prune(
	ctx context.Context,
	api *client.Client,
	a *apply,
	all []manifest.Manifest,
) error {
	kept := make(map[[2]string]bool)
	apps := make(map[string]bool) // whether the files have a timer of the app
	for i := range all {
		is := all[i].Kind == manifest.Timer
		if is {
			kept[[2]string{all[i].App, all[i].Name}] = true
		}
		apps[all[i].App] = apps[all[i].App] || is
	}
	var doomed []client.Object
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		if !apps[app] { // the files may be those of its calendars alone
			t.sayf("app %s: the files have no timer of it, so --prune deletes none", printable(app))
			continue
		}
		err := api.Pages(
			ctx,
			"/timers",
			url.Values{"app": {app}},
			0,
			func(items []client.Object) error {
				for _, tm := range items {
					if !kept[[2]string{app, tm.Text("name")}] {
						doomed = append(doomed, tm)
					}
				}
				return nil
			},
		)
		if err != nil {
			return err //nolint:wrapcheck // it says what the API answered
		}
	}
	if len(doomed) == 0 {
		return nil
	}
	if !a.dryRun {
		question := fmt.Sprintf(
			"Delete %d timers that are in no file, such as %s/%s, with their dead letters?",
			len(doomed),
			doomed[0].Text("app"),
			doomed[0].Text("name"),
		)
		err := t.confirm(ctx, a.yes, question)
		if errors.Is(err, errNotConfirmed) {
			return errors.New("no timer was deleted")
		}
		if err != nil {
			return err
		}
	}
	for _, tm := range doomed {
		was := manifest.Of(manifest.Timer, tm)
		done := change{
			kind: string(manifest.Timer),
			app:  was.App,
			name: was.Name,
			verb: verbDeleted,
		}
		var err error
		if done.diff, err = manifest.Diff(&was, nil); err != nil {
			return err //nolint:wrapcheck // it says what it was doing
		}
		if !a.dryRun {
			_, err = api.Do(
				ctx,
				http.MethodDelete,
				"/timers/"+tm.Text("id"),
				url.Values{"app": {was.App}},
				nil,
			)
			if err != nil && !client.Gone(err) {
				return fmt.Errorf("timer %s/%s: %w", was.App, was.Name, err)
			}
		}
		if err := t.report(a, done); err != nil {
			return err
		}
	}
	return nil
}
