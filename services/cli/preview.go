package cli

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

// defaultPreview is how many instants a preview shows.
const defaultPreview = 10

func (t *tool) previewCommand() *cobra.Command {
	var zone, from string
	var calendars []string
	var n int
	c := &cobra.Command{
		Use:   "preview SPEC...",
		Short: "show the next instants of cron expressions; needs no server",
		Long: "It computes the instants itself, by the same code as the service. With --calendar it asks\n" +
			"the API, which has the calendars of the app. With an H the instants depend on the timer's id\n" +
			"and are an example: carillon explain NAME --from 0s --to 72h shows those of a timer.",
		Example: `  carillon preview "0 9 * * MON-FRI" --tz Europe/Paris -n 10`,
		Args:    usageArgs(cobra.MinimumNArgs(1)),
		PersistentPreRunE: func(c *cobra.Command, args []string) error {
			if len(calendars) > 0 {
				return t.prepare()
			}
			return t.withoutContext(c, args)
		},
		RunE: func(c *cobra.Command, specs []string) error {
			at := time.Now()
			if from != "" {
				text, err := instant(from, at)
				if err != nil {
					return usageError("--from: " + err.Error())
				}
				if at, err = time.Parse(time.RFC3339, text); err != nil {
					return usageError("--from: " + err.Error())
				}
			}
			show := func() error { return t.previewHere(c.Context(), specs, zone, at, n) }
			if len(calendars) > 0 {
				show = func() error {
					return t.previewByAPI(c.Context(), specs, zone, calendars, at, n)
				}
			}
			if err := show(); err != nil {
				return err
			}
			if t.printer.Human() && slices.ContainsFunc(specs, hasHash) {
				fmt.Fprintln(
					t.errOut,
					"note: H takes values by the timer's id, so these instants are an "+
						"example; those of a timer: carillon explain NAME --from 0s --to 72h",
				)
			}
			return nil
		},
	}
	c.Flags().StringVar(&zone, "tz", "", "IANA time zone; UTC by default")
	c.Flags().
		StringVar(&from, "from", "", "instant before the first, or a duration from now; now by default")
	c.Flags().
		StringSliceVar(&calendars, "calendar", nil, "calendars of the app that must allow each instant")
	c.Flags().IntVarP(&n, "count", "n", defaultPreview, "how many instants")
	return c
}

var hashItem = regexp.MustCompile(`(?i)(?:^|[\s,])H(?:$|[\s,/(])`)

// hasHash reports whether a cron expression has an H, so that its instants depend on the timer's id.
// No name of a month or a weekday is an H alone.
func hasHash(spec string) bool { return hashItem.MatchString(spec) }

func (t *tool) previewHere(
	ctx context.Context,
	specs []string,
	zone string,
	from time.Time,
	n int,
) error {
	s := timer.Schedule{Kind: timer.KindCron, Specs: specs, Zone: zone}
	ms := from.UnixMilli()
	forecast, err := schedule.Preview(ctx, s, schedule.Inputs{}, ms, ms, n)
	if err != nil {
		return usageError(err.Error())
	}
	p, err := schedule.Parse(s, schedule.Inputs{})
	if err != nil {
		return usageError(err.Error())
	}
	answer := client.Object{}
	fires, excluded, warnings := []any{}, []any{}, []any{}
	for _, f := range forecast.Fires {
		fires = append(
			fires,
			map[string]any{"due": f.Due.UTC().Format(time.RFC3339Nano), "local": f.Local},
		)
	}
	for _, e := range forecast.Excluded {
		excluded = append(excluded, map[string]any{
			"due": e.Due.UTC().Format(time.RFC3339Nano), "local": e.Local, "reason": e.Reason,
		})
	}
	for _, w := range p.Warnings(ms, ms) {
		warnings = append(warnings, map[string]any{"message": w.Message})
	}
	answer["fires"], answer["excluded"], answer["warnings"] = fires, excluded, warnings
	return t.showPreview(answer)
}

func (t *tool) previewByAPI(
	ctx context.Context,
	specs []string,
	zone string,
	calendars []string,
	from time.Time,
	n int,
) error {
	app, err := t.needApp()
	if err != nil {
		return err
	}
	s := client.Object{"kind": "cron", "specs": specs, "calendars": calendars}
	setIf(s, "time_zone", zone)
	return t.withClient(func(api *client.Client) error {
		answer, err := api.Do(ctx, http.MethodPost, "/schedules/preview", nil, client.Object{
			"app": app, "schedule": s, "count": n, "from": from.UTC().Format(time.RFC3339Nano),
		})
		if err != nil {
			return err //nolint:wrapcheck // it says what the API answered
		}
		return t.showPreview(answer)
	})
}

func (t *tool) showPreview(answer client.Object) error {
	if !t.printer.Human() {
		return t.printer.One(answer)
	}
	for _, w := range answer.Objects("warnings") {
		t.sayf("warning: %s", w.Text("message"))
	}
	err := t.printer.List(answer.Objects("fires"), []output.Column{
		output.Field("LOCAL", "local"), output.Field("UTC", "due"),
		{Head: "DAY", Cell: func(o client.Object) string { return weekday(o.Text("local")) }},
	})
	for _, e := range answer.Objects("excluded") {
		t.sayf("excluded: %s: %s", e.Text("local"), e.Text("reason"))
	}
	return err
}

func weekday(local string) string {
	day, _, _ := strings.Cut(local, "T")
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return ""
	}
	return at.Weekday().String()
}
