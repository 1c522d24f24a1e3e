package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

// fireSelection selects finished fires of an app. Empty fields select all.
type fireSelection struct {
	states, reasons, causes []string
	instants                map[string]*string // by parameter
	texts                   map[string]*string
}

func newFireSelection(f *pflag.FlagSet) *fireSelection {
	s := &fireSelection{instants: map[string]*string{}, texts: map[string]*string{}}
	f.StringSliceVar(&s.states, "state", nil, "only these: delivered, failed, skipped")
	f.StringSliceVar(
		&s.reasons, "reason", nil, "only those skipped or failed for these reasons")
	f.StringSliceVar(
		&s.causes, "cause", nil, "only these: schedule, run_now, backfill, redrive")
	s.texts["timer"] = f.String("timer", "", "only this timer's, by its name or id")
	s.texts["labels"] = f.StringP(
		"selector", "l", "", "only timers with these labels: team=pay,env!=dev,tier in (a,b)")
	s.texts["min_lateness"] = f.String("min-late", "", "only those called this late or later: 1s")
	s.texts["max_lateness"] = f.String("max-late", "", "only those called no later than this")
	s.instants["due_from"] = f.String("due-from", "", "only those due at this instant or later")
	s.instants["due_to"] = f.String("due-to", "", "only those due before this instant")
	return s
}

// query returns the parameters of the selection.
func (s *fireSelection) query() (url.Values, error) {
	q := url.Values{}
	for name, list := range map[string][]string{"state": s.states, "reason": s.reasons, "cause": s.causes} {
		if len(list) > 0 {
			q.Set(name, strings.Join(list, ","))
		}
	}
	for name, text := range s.texts {
		if *text != "" {
			q.Set(name, *text)
		}
	}
	return q, setInstants(q, s.instants)
}

// setInstants adds instants, each in RFC 3339 or as a duration from now. Their flags have the names
// of the parameters.
func setInstants(q url.Values, instants map[string]*string) error {
	for name, text := range instants {
		if *text == "" {
			continue
		}
		at, err := instant(*text, time.Now())
		if err != nil {
			return usageError("--" + strings.ReplaceAll(name, "_", "-") + ": " + err.Error())
		}
		q.Set(name, at)
	}
	return nil
}

// appPath returns a path below the app that the query names.
func appPath(app url.Values, below string) string {
	return "/apps/" + url.PathEscape(app.Get("app")) + below
}

func (t *tool) appFireColumns() []output.Column {
	return append([]output.Column{
		{
			Head: "FINISHED",
			Cell: func(o client.Object) string { return localTime(o.Text("finished_at")) },
		},
		{
			Head: "TIMER",
			Cell: func(o client.Object) string { return printable(o.Text("timer_name")) },
		},
	}, t.fireColumns()...)
}

func (t *tool) firesCommand() *cobra.Command {
	var oldest bool
	var limit int
	c := &cobra.Command{
		Use:   "fires",
		Short: "list the finished fires of the app, the newest first",
		Example: `  carillon fires --state failed --finished-from -1h
  carillon fires --selector team=pay --min-late 1s`,
		Args: usageArgs(cobra.NoArgs),
	}
	selected := newFireSelection(c.Flags())
	selected.instants["finished_from"] = c.Flags().
		String("finished-from", "", "only those that finished at this instant or later, such as -1h")
	selected.instants["finished_to"] = c.Flags().
		String("finished-to", "", "only those that finished before this instant")
	c.Flags().BoolVar(&oldest, "oldest", false, "the oldest first")
	c.Flags().IntVar(&limit, "limit", defaultFires, "list at most so many; 0 lists all")
	c.RunE = func(c *cobra.Command, _ []string) error {
		query, err := selected.query()
		if err != nil {
			return err
		}
		if oldest {
			query.Set("order", "oldest")
		}
		return t.withApp(func(api *client.Client, app url.Values) error {
			fires, err := api.All(c.Context(), appPath(app, "/fires"), query, limit)
			if err != nil {
				return err //nolint:wrapcheck // it says what the API answered
			}
			return t.listOfApp(c.Context(), api, fires, t.appFireColumns())
		})
	}
	return c
}

func (t *tool) eventsCommand() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:   "events",
		Short: "print the outcomes of the app in the order in which they came",
		Long: "Without --follow it prints those since --since and ends. With --follow it goes on until\n" +
			"Ctrl-C, and connects again where it was when the connection is lost.",
		Example: `  carillon events --follow
  carillon events --since -1h --state failed`,
		Args: usageArgs(cobra.NoArgs),
	}
	selected := newFireSelection(c.Flags())
	since := c.Flags().
		String("since", "", "begin with what finished at this instant, such as -1h; "+
			"by default 10m ago, and with --follow now")
	from := c.Flags().String("from", "", "the same as --since, as other commands have it")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with those to come")
	c.RunE = func(c *cobra.Command, _ []string) error {
		given := "--since"
		switch {
		case *from != "" && *since != "":
			return usageError("--from: it is the same as --since: leave one of them out")
		case *from != "":
			given, *since = "--from", *from
		}
		begin := "from"
		if !follow {
			begin = "finished_from"
			if *since == "" {
				*since = "-10m"
			}
		}
		if *since != "" {
			at, err := instant(*since, time.Now())
			if err != nil {
				return usageError(given + ": " + err.Error())
			}
			*since = at
		}
		selected.instants[begin] = since
		query, err := selected.query()
		if err != nil {
			return err
		}
		return t.withApp(func(api *client.Client, app url.Values) error {
			if follow {
				opened := func() { t.sayf("watching app %s", app.Get("app")) }
				return t.follow(
					c.Context(),
					api,
					appPath(app, "/events"),
					query,
					opened,
					t.printEvent,
				)
			}
			query.Set("order", "oldest")
			return api.Pages( //nolint:wrapcheck // it says what the API answered
				c.Context(), appPath(app, "/fires"), query, 0, t.printEvents)
		})
	}
	return c
}

func (t *tool) printEvents(fires []client.Object) error {
	for _, fire := range fires {
		if err := t.printEvent(fire); err != nil {
			return err
		}
	}
	return nil
}

func (t *tool) printEvent(fire client.Object) error {
	if !t.printer.Human() {
		return t.printer.One(fire)
	}
	_, err := fmt.Fprintf(t.out, "%-20s  ", printable(fire.Text("timer_name")))
	if err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return t.printFire(fire)
}

// maxRepeats is the number of fires after which those printed before are forgotten. The API repeats
// those of 20 s when a stream goes on.
const maxRepeats = 100_000

// follow prints events until ctx ends. It calls opened when it is connected the first time: later
// events are printed. It connects again after each loss of the connection, and leaves out what it has
// printed already. Only a refusal, and an error of show, end it.
func (t *tool) follow(
	ctx context.Context,
	api *client.Client,
	path string,
	query url.Values,
	opened func(),
	show func(fire client.Object) error,
) error {
	once := sync.OnceFunc(opened)
	seen, before := map[string]bool{}, map[string]bool{}
	var lastID string
	for ctx.Err() == nil {
		var err, unprinted error
		lastID, err = api.Stream(ctx, path, query, lastID, once, func(fire client.Object) error {
			id := fire.Text("id")
			if seen[id] || before[id] {
				return nil
			}
			if len(seen) >= maxRepeats {
				seen, before = map[string]bool{}, seen
			}
			unprinted = show(fire)
			seen[id] = true
			return unprinted
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop
		}
		if unprinted != nil {
			return unprinted // another connection would not help
		}
		if e, ok := errors.AsType[*client.Error](
			err,
		); ok &&
			e.Status < http.StatusInternalServerError {
			return err //nolint:wrapcheck // it says what the API answered
		}
		if err != nil {
			fmt.Fprintf(t.errOut, "connecting again: %v\n", err)
		}
		clock.Pause(ctx, time.Second)
	}
	return nil
}
