package cli

import (
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
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
		t.onBackfill(
			"cancel ID",
			"cancel a backfill: what has not been called is skipped",
			http.MethodDelete,
		),
	)
	return c
}

func (t *tool) backfillStart() *cobra.Command {
	var from, to string
	c := &cobra.Command{
		Use:               "start NAME|ID --from INSTANT --to INSTANT",
		Short:             "create the fires that a timer's schedule has in a past range",
		Example:           "  carillon backfill start invoices --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z",
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			now := time.Now()
			first, err := instant(from, now)
			if err != nil {
				return usageError("--from: " + err.Error())
			}
			last, err := instant(to, now)
			if err != nil {
				return usageError("--to: " + err.Error())
			}
			return t.eachTimer(
				c.Context(),
				names,
				func(api *client.Client, app url.Values, tm client.Object) error {
					made, err := api.Do(
						c.Context(), http.MethodPost, "/timers/"+tm.Text("id")+"/backfills", app,
						client.Object{"from": first, "to": last},
					)
					if err != nil {
						return err //nolint:wrapcheck // it says what the API answered
					}
					return t.printer.One(made)
				},
			)
		},
	}
	c.Flags().
		StringVar(&from, "from", "", "first instant, included; or a duration from now such as -24h")
	c.Flags().StringVar(&to, "to", "0s", "last instant, not included; now by default")
	return c
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
