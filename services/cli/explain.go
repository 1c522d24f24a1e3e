package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/fatih/color"
	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

func (t *tool) explainCommand() *cobra.Command {
	var from, to string
	var limit int
	c := &cobra.Command{
		Use:   "explain NAME|ID [INSTANT]",
		Short: "tell why a timer was called at an instant, was not, or will be",
		Long: "INSTANT is in RFC 3339, or a duration from now such as 1h; now by default, or the last fire of a\n" +
			"timer that has no next one. A full second is the one instant within it, if there is one. A\n" +
			"duration into the past comes after --, as the last argument. With --from it explains every instant\n" +
			"of a range.",
		Example: `  carillon explain report 2030-01-31T09:00:00+01:00
  carillon explain report -- -30m
  carillon explain report --from -24h --to 0s`,
		Args:              usageArgs(cobra.RangeArgs(1, 2)), //nolint:mnd // as Use shows
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, args []string) error {
			query := map[string]string{"from": from, "to": to}
			if len(args) > 1 {
				query["at"] = args[1]
			}
			if query["at"] != "" && from != "" {
				return usageError("pass either INSTANT or --from and --to")
			}
			for name, text := range query {
				if text == "" {
					continue
				}
				at, err := instant(text, time.Now())
				if err != nil {
					if name == "at" {
						return usageError("INSTANT: " + err.Error())
					}
					return usageError("--" + name + ": " + err.Error())
				}
				query[name] = at
			}
			return t.withApp(func(api *client.Client, app url.Values) error {
				tm, err := findTimer(c.Context(), api, app, args[0])
				if err != nil && isID.MatchString(args[0]) {
					tm, err = client.Object{"id": args[0]}, nil // perhaps deleted
				}
				if err != nil {
					return err
				}
				for name, at := range query {
					if at != "" {
						app.Set(name, at)
					}
				}
				path := "/timers/" + tm.Text("id") + "/explain"
				if from != "" {
					items, err := api.All(c.Context(), path, app, limit)
					if err != nil {
						return err //nolint:wrapcheck // it says what the API answered
					}
					if err := t.printer.List(items, t.explainColumns()); err != nil {
						return err
					}
					return t.showHoldsOfRange(c.Context(), api, path, app, items)
				}
				answer, err := explainOne(c.Context(), api, path, app, tm)
				if err != nil {
					return err
				}
				return t.showExplanation(answer)
			})
		},
	}
	c.Flags().StringVar(&from, "from", "", "explain the instants from here on")
	c.Flags().StringVar(&to, "to", "", "up to here; a day after --from by default")
	c.Flags().IntVar(&limit, "limit", 0, "explain at most so many; 0 explains all")
	return c
}

// explainOne explains the instant that the query has as at, or else the present. A full second is an
// instant within it, if there is no other, as people copy instants without milliseconds. Instead of
// the present it explains the last fire of an active timer that has no next one, if nothing is open
// or holds fires back.
func explainOne(
	ctx context.Context, api *client.Client, path string, query url.Values, tm client.Object,
) (client.Object, error) {
	answer, err := api.Get(ctx, path, query)
	if err != nil || slices.ContainsFunc(answer.Objects("items"), func(o client.Object) bool {
		return o.Text("code") != "not_in_schedule"
	}) {
		return answer, err //nolint:wrapcheck // it says what the API answered
	}
	app, field := url.Values{"app": query["app"]}, "at"
	var found []client.Object
	second, err := time.Parse(time.RFC3339, query.Get("at"))
	switch {
	case err == nil && second.Nanosecond() == 0:
		app.Set("from", query.Get("at"))
		app.Set("to", second.Add(time.Second).Format(time.RFC3339))
		found, err = api.All(ctx, path, app, 2) //nolint:mnd // whether there is one
	case err == nil, tm.Text("status") != string(timer.StatusActive), tm.Text("next_due") != "",
		len(answer.Objects("holds")) > 0:
		return answer, nil
	default:
		field = "due"
		found, err = api.All(ctx, "/timers/"+tm.Text("id")+"/fires", app, 1)
	}
	if err != nil || len(found) != 1 {
		return answer, err //nolint:wrapcheck // it says what the API answered
	}
	//nolint:wrapcheck // it says what the API answered
	return api.Get(ctx, path, url.Values{"app": query["app"], "at": {found[0].Text(field)}})
}

func (t *tool) explainColumns() []output.Column {
	return []output.Column{
		output.Field("LOCAL", "local"),
		{Head: "CODE", Cell: t.explainCode},
		output.Field("VERSION", "version").AsWide(),
		output.Field("SPEC", "spec").AsWide(),
		output.Field("EXPLANATION", "text"),
	}
}

// explainCode shows a code in the color of good, bad, or neither.
func (t *tool) explainCode(answer client.Object) string {
	code := answer.Text("code")
	switch fire := answer.Object("fire"); {
	case code == "missing" || fire.Text("status") == "failed":
		return t.paint(code, color.FgRed)
	case code == "delivered":
		return t.paint(code, color.FgGreen)
	default:
		return t.paint(code, color.FgYellow)
	}
}

// showExplanation prints the answers for one instant.
func (t *tool) showExplanation(answer client.Object) error {
	if !t.printer.Human() {
		return t.printer.One(answer)
	}
	for _, item := range answer.Objects("items") {
		lines := []string{
			fmt.Sprintf("%s  %s  %s", answer.Text("name"), item.Text("local"), t.explainCode(item)),
			item.Text("text"),
		}
		if spec := item.Text("spec"); spec != "" {
			lines = append(lines, fmt.Sprintf("By %q, version %d.", spec, item.Int("version")))
		}
		if id := item.Object("fire").Text("id"); id != "" {
			lines = append(lines, "carillon fire get "+id+" shows its attempts.")
		}
		if err := t.printLines(lines); err != nil {
			return err
		}
		if hops := item.Objects("timeline"); len(hops) > 0 {
			if err := t.showTimeline(hops); err != nil {
				return err
			}
		}
	}
	return t.showHolds(answer, nil)
}

// showHolds prints what holds fires back now, without open fires that the items above tell of.
func (t *tool) showHolds(answer client.Object, above []client.Object) error {
	shown := map[string]bool{}
	for _, item := range above {
		shown[item.Object("fire").Text("id")] = true
	}
	var holds []string
	for _, hold := range answer.Objects("holds") {
		fire := hold.Object("answer").Object("fire").Text("id")
		if fire == "" || !shown[fire] {
			holds = append(holds, "Now: "+hold.Text("text"))
		}
	}
	return t.printLines(holds)
}

// showHoldsOfRange prints what holds fires back now below the instants of a range, for people, if one
// of its fires is open or to come.
func (t *tool) showHoldsOfRange(
	ctx context.Context, api *client.Client, path string, query url.Values, items []client.Object,
) error {
	if !t.printer.Human() || !slices.ContainsFunc(items, isToCome) {
		return nil
	}
	answer, err := api.Get(ctx, path, url.Values{"app": query["app"]}) // about the present
	if err != nil {
		return err //nolint:wrapcheck // it says what the API answered
	}
	return t.showHolds(answer, items)
}

// isToCome reports whether an answer is about an open fire, or an instant that is to come.
func isToCome(answer client.Object) bool {
	at, err := time.Parse(time.RFC3339, answer.Text("at"))
	return answer.Object("fire").Text("status") == "open" || err == nil && at.After(time.Now())
}

func (t *tool) printLines(lines []string) error {
	for _, line := range lines {
		if err := printLine(t.out, line); err != nil {
			return err
		}
	}
	return nil
}
