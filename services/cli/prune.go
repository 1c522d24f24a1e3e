package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
)

// prune deletes the timers of the files' apps that are in no file. Calendars stay.
func (t *tool) prune(
	ctx context.Context,
	api *client.Client,
	a *apply,
	all []manifest.Manifest,
) error {
	kept := make(map[[2]string]bool)
	var apps []string
	for i := range all {
		if all[i].Kind == manifest.Timer {
			kept[[2]string{all[i].App, all[i].Name}] = true
			apps = append(apps, all[i].App)
		}
	}
	slices.Sort(apps)
	var doomed []client.Object
	for _, app := range slices.Compact(apps) {
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
		if err := t.confirm(a.yes, question); err != nil {
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
			if err != nil && !client.NotFound(err) {
				return fmt.Errorf("timer %s/%s: %w", was.App, was.Name, err)
			}
		}
		if err := t.report(a, done); err != nil {
			return err
		}
	}
	return nil
}
