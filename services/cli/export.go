package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
	"github.com/carillon-timer/carillon/services/cli/internal/progress"
)

func (t *tool) exportCommand() *cobra.Command {
	var ndjson, withoutApp, pending bool
	c := &cobra.Command{
		Use:   "export",
		Short: "print all calendars and timers of an app as files for apply",
		Long: "It prints YAML documents in the order of their names. Secrets are not shown: REDACTED in their\n" +
			"place keeps those that the service has. The export of an app that changes meanwhile is not of\n" +
			"one instant. It fails if there is no such app.\n\n" +
			"Applied to another app or deployment, a one-shot is called again, at once if its instant has\n" +
			"passed. --pending leaves out those that have come due, and --without-app implies it. The status\n" +
			"of a paused timer is left out: applied to its own app it stays paused, and a copy is inactive.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				if !c.Flags().Changed("pending") {
					pending = withoutApp
				}
				all, left, err := t.readAll(c.Context(), api, app, pending)
				switch {
				case left == 1:
					fmt.Fprintln(t.errOut, "1 one-shot that has come due is left out")
				case left > 1:
					fmt.Fprintf(t.errOut, "%d one-shots that have come due are left out\n", left)
				}
				if err == nil && len(all)+left == 0 {
					err = t.emptyExport(c.Context(), api)
				}
				if err != nil {
					return err
				}
				if withoutApp {
					for i := range all {
						all[i].App = ""
						delete(all[i].Body, "app")
					}
				}
				return t.export(all, ndjson)
			})
		},
	}
	c.Flags().BoolVar(&ndjson, "ndjson", false, "print a line of JSON for each")
	c.Flags().BoolVar(&withoutApp, "without-app", false,
		"leave the app out of the documents, to apply them to another app")
	c.Flags().BoolVar(&pending, "pending", false, "leave out active one-shots that have come due")
	return c
}

// readAll returns the definitions of an app: calendars, then timers, each by name. With pending it
// leaves out one-shots that have come due, and returns how many. Of those that may have, the API
// decides after they were read, so one that comes due meanwhile is left out.
func (t *tool) readAll(
	ctx context.Context,
	api *client.Client,
	app url.Values,
	pending bool,
) (all []manifest.Manifest, left int, err error) {
	bar := progress.New(t.errOut, "exporting", progress.Unknown)
	defer bar.Done()
	asked := make(map[string]bool) // timers that the API decides about
	for _, k := range []struct {
		kind manifest.Kind
		path string
	}{{manifest.Calendar, "/calendars"}, {manifest.Timer, "/timers"}} {
		from := len(all)
		err := api.Pages(ctx, k.path, app, 0, func(items []client.Object) error {
			for _, item := range items {
				if why := item.Text("unreadable"); why != "" { // an import would lack it
					return fmt.Errorf("timer %s: its definition cannot be read: %s",
						item.Text("name"), why)
				}
				if pending && mayHaveComeDue(item, time.Now()) {
					asked[item.Text("name")] = true
				}
				all = append(all, manifest.Of(k.kind, item))
			}
			bar.Add(int64(len(items)))
			return nil
		})
		if err != nil {
			return nil, 0, err //nolint:wrapcheck // it says what the API answered
		}
		slices.SortFunc(all[from:], func(a, b manifest.Manifest) int {
			return strings.Compare(a.Name, b.Name)
		})
	}
	if len(asked) == 0 {
		return all, 0, nil
	}
	// No field of a timer says it: a paused delay has no next due instant, whether its fire was
	// created or not.
	err = api.Lines(ctx, appPath(app, "/export"), url.Values{"one_shots": {"pending"}},
		func(doc client.Object) error {
			if doc.Text("kind") == string(manifest.Timer) {
				delete(asked, doc.Text("name"))
			}
			return nil
		})
	if err != nil {
		return nil, 0, err //nolint:wrapcheck // it says what the API answered
	}
	all = slices.DeleteFunc(all, func(m manifest.Manifest) bool {
		return m.Kind == manifest.Timer && asked[m.Name]
	})
	return all, len(asked), nil
}

// mayHaveComeDue returns whether a definition is a one-shot that is not inactive and has no next due
// instant.
func mayHaveComeDue(item client.Object, now time.Time) bool {
	due, err := time.Parse(time.RFC3339, item.Text("next_due"))
	kind := timer.ScheduleKind(item.Object("schedule").Text("kind"))
	return kind.OneShot() && item.Text("status") != string(timer.StatusInactive) &&
		(err != nil || !due.After(now))
}

// emptyExport fails if there is no such app, so that no script keeps an empty file as a backup. It
// says that an app which exists has nothing to export.
func (t *tool) emptyExport(ctx context.Context, api *client.Client) error {
	if err := t.findApp(ctx, api); err != nil {
		return err
	}
	fmt.Fprintf(t.errOut, "app %q has no calendars and no timers\n", t.target.App)
	return nil
}

func (t *tool) export(all []manifest.Manifest, ndjson bool) error {
	for i := range all {
		data, err := all[i].YAML()
		if ndjson {
			data, err = all[i].JSON()
		} else if err == nil {
			data = append([]byte("---\n"), data...)
		}
		if err != nil {
			return err //nolint:wrapcheck // it says what it was doing
		}
		if _, err := t.out.Write(data); err != nil {
			return err //nolint:wrapcheck // of the output
		}
	}
	return nil
}
