package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/fatih/color"
	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

// defaultFires is how many fires a list shows.
const defaultFires = 20

func (t *tool) fireColumns() []output.Column {
	return []output.Column{
		{Head: "DUE", Cell: func(o client.Object) string { return localTime(o.Text("due")) }},
		{Head: "STATUS", Cell: t.describeStatus},
		{Head: "LATE", Cell: describeLateness},
		output.Field("ATTEMPTS", "attempts"),
		output.Field("CODE", "status_code"),
		output.Field("FIRE", "id"),
		output.Field("CAUSE", "cause").AsWide(),
		output.Field("VERSION", "version").AsWide(),
		output.Field("FAILURE", "failure").AsWide(),
	}
}

// describeStatus shows what became of a fire, with its reason.
func (t *tool) describeStatus(fire client.Object) string {
	text := fire.Text("status")
	why := fire.Text("reason") + fire.Text("waits_for") // it has one of them
	if why == "executor" {
		why = "its executor has it"
	}
	if why != "" {
		text += " (" + why + ")"
	}
	if n := fire.Int("count"); n > 1 {
		text += fmt.Sprintf(" ×%d", n)
	}
	return text
}

func describeLateness(fire client.Object) string {
	switch fire.Text("status") {
	case "delivered", "failed":
		return (time.Duration(fire.Int("lateness_ms")) * time.Millisecond).String()
	default:
		return ""
	}
}

func (t *tool) timerFires() *cobra.Command {
	var states []string
	var limit int
	c := &cobra.Command{
		Use:               "fires NAME|ID",
		Short:             "list the fires of a timer, the latest first",
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			return t.eachTimer(
				c.Context(),
				names,
				func(api *client.Client, app url.Values, tm client.Object) error {
					if len(states) > 0 {
						app.Set("state", strings.Join(states, ","))
					}
					fires, err := api.All(
						c.Context(),
						"/timers/"+tm.Text("id")+"/fires",
						app,
						limit,
					)
					if err != nil {
						return err //nolint:wrapcheck // it says what the API answered
					}
					return t.printer.List(fires, t.fireColumns())
				},
			)
		},
	}
	c.Flags().
		StringSliceVar(&states, "state", nil, "only these: open, delivered, failed, skipped, upcoming; the finished ones by default")
	c.Flags().IntVar(&limit, "limit", defaultFires, "list at most so many; 0 lists all")
	return c
}

func (t *tool) timerWatch() *cobra.Command {
	var count int
	c := &cobra.Command{
		Use:               "watch NAME|ID",
		Short:             "print the fires of a timer as they finish, until Ctrl-C or --count",
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			return t.eachTimer(
				c.Context(),
				names,
				func(api *client.Client, app url.Values, tm client.Object) error {
					return t.watch(c.Context(), api, app, tm, count)
				},
			)
		},
	}
	c.Flags().IntVar(&count, "count", 0, "end after so many fires; 0 never ends")
	return c
}

// errWatched ends a watch that has printed as many fires as it was to print.
var errWatched = errors.New("enough fires were printed")

// watch prints the fires of a timer in the order in which their outcomes are recorded, whenever they
// were due, until ctx ends, or count of them if that is not 0.
func (t *tool) watch(
	ctx context.Context,
	api *client.Client,
	app url.Values,
	tm client.Object,
	count int,
) error {
	opened := func() {
		t.sayf("watching %s; next due %s", tm.Text("name"), orDash(localTime(tm.Text("next_due"))))
	}
	show := func(fire client.Object) error {
		if err := t.printFire(fire); err != nil {
			return err
		}
		if count--; count == 0 {
			return errWatched
		}
		return nil
	}
	query := url.Values{"timer": {tm.Text("id")}}
	err := t.follow(ctx, api, appPath(app, "/events"), query, opened, show)
	if errors.Is(err, errWatched) {
		return nil
	}
	if err == nil && count > 0 {
		return ctx.Err() //nolint:wrapcheck // run replaces it
	}
	return err
}

func (t *tool) printFire(fire client.Object) error {
	if !t.printer.Human() {
		return t.printer.One(fire)
	}
	shade := color.FgYellow
	switch fire.Text("status") {
	case "delivered":
		shade = color.FgGreen
	case "failed":
		shade = color.FgRed
	}
	_, err := fmt.Fprintf(
		t.out,
		"%s  %-10s  late %-8s  %s\n",
		localTime(fire.Text("due")),
		t.paint(t.describeStatus(fire), shade),
		orDash(describeLateness(fire)),
		fire.Text("id"),
	)
	return err //nolint:wrapcheck // of the output
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (t *tool) fireCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "fire",
		Short: "show fires",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(t.fireGet())
	return c
}

func (t *tool) fireGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get ID...",
		Short: "show fires with each attempt, and their lives as tables",
		Args:  usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, ids []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				for i, id := range ids {
					fire, err := api.Get(c.Context(), "/fires/"+url.PathEscape(id), app)
					if err != nil {
						return err //nolint:wrapcheck // it says what the API answered
					}
					if i > 0 && t.printer.Human() {
						t.sayf("---")
					}
					if err := t.showFire(fire); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// showFire prints a fire. For people its life is a table behind the rest.
func (t *tool) showFire(fire client.Object) error {
	if !t.printer.Human() {
		return t.printer.One(fire)
	}
	hops := fire.Objects("timeline")
	delete(fire, "timeline")
	if err := t.printer.One(fire); err != nil {
		return err
	}
	return t.showTimeline(hops)
}

// showTimeline prints the life of a fire as a table.
func (t *tool) showTimeline(hops []client.Object) error {
	if err := printLine(t.out, ""); err != nil {
		return err
	}
	return t.printer.List(hops, []output.Column{
		output.Field("AT", "at"),
		output.Field("HOP", "code"),
		output.Field("WHAT", "text"),
	})
}
