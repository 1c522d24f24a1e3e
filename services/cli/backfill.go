package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/progress"
)

func (t *tool) backfillCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "backfill",
		Short: "create the fires of a past range, and follow or cancel that",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		t.backfillStart(),
		t.onBackfill("get ID", "show a backfill", http.MethodGet),
		t.withDryRun(t.onBackfill(
			"cancel ID",
			"cancel a backfill: what has not been called is skipped",
			http.MethodDelete,
		)),
	)
	return c
}

func (t *tool) backfillStart() *cobra.Command {
	var from, to string
	var wait bool
	c := &cobra.Command{
		Use:               "start NAME|ID --from INSTANT [--to INSTANT]",
		Short:             "create the fires that a timer's schedule has in a past range",
		Example:           "  carillon backfill start invoices --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z",
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			now := time.Now()
			first, err := t.repeatable("from", from, now)
			if err != nil {
				return err
			}
			span := client.Object{"from": first}
			if c.Flags().Changed("to") { // else the API's own now, which this clock may be ahead of
				if span["to"], err = t.repeatable("to", to, now); err != nil {
					return err
				}
			}
			return t.eachTimer(
				c.Context(),
				names,
				func(api *client.Client, app url.Values, tm client.Object) error {
					made, err := t.doOnce(
						c.Context(), api, "/timers/"+tm.Text("id")+"/backfills", app, span,
					)
					if err != nil {
						return err
					}
					if wait && !t.dryRun {
						made, err = t.awaitBackfill(c.Context(), api, app, made)
						if err != nil {
							return err
						}
					}
					return t.printer.One(made)
				},
			)
		},
	}
	c.Flags().
		BoolVar(&wait, "wait", false, "wait until all its fires are created; Ctrl-C does not cancel it")
	c.Flags().
		StringVar(&from, "from", "", "first instant, included; or a duration from now such as -24h")
	c.Flags().StringVar(&to, "to", "", "last instant, not included; now by default")
	return t.withKey(t.withDryRun(c))
}

// awaitBackfill waits until a backfill has created its fires, and returns it. It fails if somebody
// cancels the backfill.
func (t *tool) awaitBackfill(
	ctx context.Context,
	api *client.Client,
	app url.Values,
	made client.Object,
) (client.Object, error) {
	const percent = 100
	id := made.Text("id")
	bar := progress.New(t.errOut, "creating fires, percent", percent)
	defer bar.Done()
	for {
		switch status := made.Text("status"); status {
		case "running":
		case "done":
			return made, nil
		default:
			return nil, fmt.Errorf("backfill %s is %s: it has created %d fires",
				id, status, made.Int("fires_created"))
		}
		bar.Set(int64(shareDone(made)*percent), percent)
		var err error
		if made, err = look(ctx, api, "/backfills/"+url.PathEscape(id), app); err != nil {
			bar.Done()
			if !client.NotFound(err) {
				fmt.Fprintf(t.errOut, "backfill %s goes on: carillon backfill get %s\n", id, id)
			}
			return nil, err
		}
	}
}

// shareDone returns which share of its range a backfill has passed.
func shareDone(backfill client.Object) float64 {
	instants := make(map[string]time.Time)
	for _, name := range []string{"from", "next", "to"} {
		instants[name], _ = time.Parse(time.RFC3339, backfill.Text(name)) // the API's own
	}
	all := instants["to"].Sub(instants["from"])
	if all <= 0 {
		return 0
	}
	return min(max(float64(instants["next"].Sub(instants["from"]))/float64(all), 0), 1)
}

func (t *tool) onBackfill(use, short, method string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, ids []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				found, err := api.Do(
					c.Context(),
					method,
					"/backfills/"+url.PathEscape(ids[0]),
					app,
					nil,
				)
				if err != nil || found == nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				return t.printer.One(found)
			})
		},
	}
}
