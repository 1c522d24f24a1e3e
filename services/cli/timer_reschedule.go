package cli

import (
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

func (t *tool) timerReschedule() *cobra.Command {
	var at, delay string
	var version int32
	c := &cobra.Command{
		Use:   "reschedule NAME|ID (--at INSTANT | --delay D)",
		Short: "move a one-shot that has not fired to another instant",
		Long: "It moves a timer of kind at or delay, which is of kind at from then on. A one-shot that has come\n" +
			"due is not moved: only one of the two instants is called. Timers that recur are changed by\n" +
			"carillon timer edit.",
		Example: `  carillon timer reschedule reminder --at 2030-01-31T09:00:00Z
  carillon timer reschedule reminder --delay 90m --dry-run`,
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			body := client.Object{}
			switch {
			case (at == "") == (delay == ""):
				return usageError("expected the new instant: give one of --at and --delay")
			case delay != "":
				body["delay"] = delay
			default:
				instant, err := instant(at, time.Now())
				if err != nil {
					return usageError("--at: " + err.Error())
				}
				body["at"] = instant
			}
			if c.Flags().Changed("if-version") {
				body["if_version"] = version
			}
			return t.eachTimer(c.Context(), names, func(
				api *client.Client, app url.Values, tm client.Object,
			) error {
				path := "/timers/" + tm.Text("id") + "/reschedule"
				answer, err := api.Do(c.Context(), http.MethodPost, path, app, body)
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				return t.showWritten(answer, "rescheduled")
			})
		},
	}
	f := c.Flags()
	f.StringVar(
		&at,
		"at",
		"",
		"the new instant such as 2030-01-31T09:00:00Z, or a duration from now such as 2h",
	)
	f.StringVar(&delay, "delay", "", "how long from now, by the clock of the API, such as 90m")
	f.Int32Var(&version, "if-version", 0, "only if this is the timer's version")
	return t.withDryRun(c)
}
