package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

func (t *tool) timerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "timer",
		Aliases: []string{"timers"},
		Short:   "list, create, change, pause and run timers",
		Args:    usageArgs(cobra.NoArgs),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		t.timerList(), t.timerGet(), t.timerCreate(), t.timerEdit(), t.timerDelete(),
		t.timerPause(), t.timerResume(), t.timerRun(), t.timerLabel(), t.timerFires(),
		t.timerTest(), t.timerWatch(), t.timerReschedule(),
	)
	return c
}

func timerColumns() []output.Column {
	return []output.Column{
		output.Field("NAME", "name"),
		output.Field("ID", "id").AsWide(),
		output.Field("STATUS", "status"),
		{Head: "SCHEDULE", Cell: describeSchedule},
		{
			Head: "NEXT DUE",
			Cell: func(o client.Object) string { return localTime(o.Text("next_due")) },
		},
		{Head: "TARGET", Cell: describeTarget},
		output.Field("PRIORITY", "priority").AsWide(),
		output.Field("VERSION", "version").AsWide(),
		{
			Head: "LAST FIRED",
			Cell: func(o client.Object) string { return localTime(o.Text("last_fired")) },
			Wide: true,
		},
		output.Field("LAST OUTCOME", "last_outcome").AsWide(),
		output.Field("FIRES", "fires_created").AsWide(),
		{Head: "LABELS", Cell: describeLabels, Wide: true},
	}
}

// describeSchedule returns a timer's schedule in a few words.
func describeSchedule(tm client.Object) string {
	s := tm.Object("schedule")
	switch kind := s.Text("kind"); kind {
	case "cron":
		var specs []string
		for _, spec := range s.List("specs") {
			specs = append(specs, fmt.Sprint(spec))
		}
		return strings.TrimSpace(strings.Join(specs, " | ") + " " + s.Text("time_zone"))
	case "interval":
		return "every " + s.Text("every")
	case "fixed_delay":
		return s.Text("every") + " after each end"
	case "at":
		return "at " + localTime(s.Text("at"))
	case "delay":
		return s.Text("delay") + " after its activation"
	default:
		return kind
	}
}

// describeTarget returns where a timer calls.
func describeTarget(tm client.Object) string {
	targets := tm.Objects("targets")
	if one := tm.Object("target"); one != nil {
		targets = append(targets, one)
	}
	var all []string
	for _, target := range targets {
		text := target.Text("url")
		if p := target.Object("pulsar"); text == "" && p != nil {
			text = p.Text("topic")
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func describeLabels(tm client.Object) string {
	var all []string
	labels := tm.Object("labels")
	for _, name := range sortedNames(labels) {
		all = append(all, name+"="+labels.Text(name))
	}
	return strings.Join(all, ",")
}

// localTime shows an instant in the zone of the terminal, to the millisecond if it has some.
func localTime(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return listed(at.Local())
}

func (t *tool) timerGet() *cobra.Command {
	return &cobra.Command{
		Use:               "get NAME|ID...",
		Short:             "show timers",
		Args:              usageArgs(cobra.MinimumNArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			var found []client.Object
			err := t.eachTimer(
				c.Context(),
				names,
				func(_ *client.Client, _ url.Values, tm client.Object) error {
					found = append(found, tm)
					return nil
				},
			)
			if err != nil {
				return err
			}
			if len(found) == 1 && (t.format == "" || !t.printer.Human()) {
				return t.printer.One(found[0])
			}
			return t.printer.List(found, timerColumns())
		},
	}
}

// eachTimer calls do for each named timer and stops at the first error.
func (t *tool) eachTimer(
	ctx context.Context,
	names []string,
	do func(c *client.Client, app url.Values, tm client.Object) error,
) error {
	return t.withApp(func(c *client.Client, app url.Values) error {
		for _, name := range names {
			tm, err := findTimer(ctx, c, app, name)
			if err != nil {
				return err
			}
			if err := do(c, app, tm); err != nil {
				return fmt.Errorf("timer %s: %w", tm.Text("name"), err)
			}
		}
		return nil
	})
}

// changeStatus sends a request about each named timer. done says what became of one, by the timer as
// it was before.
func (t *tool) changeStatus(
	c *cobra.Command,
	names []string,
	below string,
	body any,
	done func(was client.Object) string,
) error {
	return t.eachTimer(
		c.Context(),
		names,
		func(api *client.Client, app url.Values, tm client.Object) error {
			path := "/timers/" + tm.Text("id") + below
			answer, err := api.Do(c.Context(), http.MethodPost, path, app, body)
			if err != nil {
				return err //nolint:wrapcheck // it says what the API answered
			}
			if t.printer.Human() || answer == nil {
				t.sayf("timer %s %s", tm.Text("name"), done(tm))
				return nil
			}
			return t.printer.One(answer)
		},
	)
}

func (t *tool) timerDelete() *cobra.Command {
	c := &cobra.Command{
		Use:   "delete NAME|ID...",
		Short: "delete timers",
		Long: "Delete timers. Their dead letters are no longer listed then, and cannot be redriven: redrive\n" +
			"those that still matter first. carillon fires --timer ID shows them later, by the timer's id.",
		Args:              usageArgs(cobra.MinimumNArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			return t.eachTimer(c.Context(), names, func(
				api *client.Client, app url.Values, tm client.Object,
			) error {
				return t.deleteOne(c.Context(), api, app, tm)
			})
		},
	}
	return t.addBulk(c, action("delete"))
}

// deleteOne deletes a timer, and says that its dead letters go with it.
func (t *tool) deleteOne(
	ctx context.Context,
	api *client.Client,
	app url.Values,
	tm client.Object,
) error {
	id := tm.Text("id")
	query := url.Values{"timer": {id}, "limit": {"1"}}
	// Only the deletion itself may fail.
	letters, _ := api.Get(ctx, appPath(app, "/dead-letters"), query)
	if _, err := api.Do(ctx, http.MethodDelete, "/timers/"+id, app, nil); err != nil {
		return err //nolint:wrapcheck // it says what the API answered
	}
	t.sayf("timer %s %s", tm.Text("name"), t.done("deleted"))
	if len(letters.Objects("items")) > 0 {
		t.sayf(
			"it has dead letters, which are not listed or redriven without it: "+
				"carillon fires --timer %s --state failed shows them", id,
		)
	}
	return nil
}

func (t *tool) timerPause() *cobra.Command {
	var reason, until string
	c := &cobra.Command{
		Use:               "pause NAME|ID...",
		Short:             "pause timers, perhaps until an instant",
		Args:              usageArgs(cobra.MinimumNArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			body := client.Object{"reason": reason}
			if until != "" {
				at, err := instant(until, time.Now())
				if err != nil {
					return usageError("--until: " + err.Error())
				}
				body["until"] = at
			}
			return t.changeStatus(c, names, "/pause", body, func(client.Object) string {
				return t.done("paused")
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; shown until it is resumed")
	c.Flags().
		StringVar(&until, "until", "", "when it is activated again: an instant, or a duration from now such as 2h")
	return t.addBulk(c, pauseJob(&reason, &until))
}

func (t *tool) timerResume() *cobra.Command {
	c := &cobra.Command{
		Use:               "resume NAME|ID...",
		Short:             "end the pause of timers",
		Args:              usageArgs(cobra.MinimumNArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			return t.changeStatus(c, names, "/resume", nil, func(was client.Object) string {
				if was.Text("status") == string(timer.StatusActive) {
					return "was not paused: it is active"
				}
				return t.done("resumed")
			})
		},
	}
	return t.addBulk(c, action("resume"))
}

func (t *tool) timerRun() *cobra.Command {
	c := &cobra.Command{
		Use:               "run NAME|ID...",
		Short:             "call the target of timers now, besides their schedule",
		Args:              usageArgs(cobra.MinimumNArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			return t.eachTimer(
				c.Context(),
				names,
				func(api *client.Client, app url.Values, tm client.Object) error {
					fire, err := t.doOnce(
						c.Context(),
						api,
						"/timers/"+tm.Text("id")+"/run",
						app,
						nil,
					)
					if err != nil {
						return err
					}
					if t.printer.Human() {
						t.sayRun(tm, fire)
						return nil
					}
					return t.printer.One(fire)
				},
			)
		},
	}
	return t.withKey(t.addBulk(c, action("run")))
}

func (t *tool) sayRun(tm, fire client.Object) {
	if t.dryRun {
		t.sayf("timer %s would run", tm.Text("name"))
		return
	}
	t.sayf("timer %s runs: fire %s", tm.Text("name"), fire.Text("id"))
}
