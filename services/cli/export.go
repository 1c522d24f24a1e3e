package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
	"github.com/carillon-timer/carillon/services/cli/internal/progress"
)

func (t *tool) exportCommand() *cobra.Command {
	var ndjson, withoutApp bool
	c := &cobra.Command{
		Use:   "export",
		Short: "print all calendars and timers of an app as files for apply",
		Long: "It prints YAML documents in the order of their names. Secrets are not shown: REDACTED in their\n" +
			"place keeps those that the service has. The export of an app that changes meanwhile is not of\n" +
			"one instant. It fails if there is no such app.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				all, err := t.readAll(c.Context(), api, app)
				if err == nil && len(all) == 0 {
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
	return c
}

// readAll returns the definitions of an app: calendars, then timers, each by name.
func (t *tool) readAll(
	ctx context.Context,
	api *client.Client,
	app url.Values,
) ([]manifest.Manifest, error) {
	bar := progress.New(t.errOut, "exporting", progress.Unknown)
	defer bar.Done()
	var all []manifest.Manifest
	for _, k := range []struct {
		kind manifest.Kind
		path string
	}{{manifest.Calendar, "/calendars"}, {manifest.Timer, "/timers"}} {
		from := len(all)
		err := api.Pages(ctx, k.path, app, 0, func(items []client.Object) error {
			for _, item := range items {
				all = append(all, manifest.Of(k.kind, item))
			}
			bar.Add(int64(len(items)))
			return nil
		})
		if err != nil {
			return nil, err //nolint:wrapcheck // it says what the API answered
		}
		slices.SortFunc(all[from:], func(a, b manifest.Manifest) int {
			return strings.Compare(a.Name, b.Name)
		})
	}
	return all, nil
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
