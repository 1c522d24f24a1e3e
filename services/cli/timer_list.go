package cli

import (
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// timerSelection selects timers of an app. Empty fields select all.
type timerSelection struct {
	labels, prefix, contains, status, host string
	dueAfter, dueBefore, lastOutcome       string
}

func (s *timerSelection) addFlags(f *pflag.FlagSet) {
	f.StringVarP(
		&s.labels, "labels", "l", "",
		"only timers whose labels meet a selector: team=pay,env!=dev,tier in (a,b),!legacy",
	)
	f.StringVar(&s.prefix, "name-prefix", "", "only timers whose name begins so")
	f.StringVar(&s.contains, "contains", "", "only timers whose name contains this")
	f.StringVar(
		&s.status, "status", "", "only timers of this status: active, inactive or paused",
	)
	f.StringVar(&s.host, "target-host", "", "only timers that call this host")
	f.StringVar(
		&s.dueAfter, "due-after", "",
		"only timers that are due next at this instant or later, or so long from now (2h)",
	)
	f.StringVar(
		&s.dueBefore, "due-before", "",
		"only timers that are due next before this instant, or sooner than so long from now (2h)",
	)
	f.StringVar(
		&s.lastOutcome, "last-outcome", "",
		"only timers whose latest fire ended so: delivered, failed, skipped or none",
	)
}

// query adds the selection to a query.
func (s *timerSelection) query(q url.Values, now time.Time) error {
	for flag, at := range map[string]*string{
		"--due-after": &s.dueAfter, "--due-before": &s.dueBefore,
	} {
		if *at == "" {
			continue
		}
		var err error
		if *at, err = instant(*at, now); err != nil {
			return usageError(flag + ": " + err.Error())
		}
	}
	for name, value := range map[string]string{
		"labels": s.labels, "name_prefix": s.prefix, "name_contains": s.contains,
		"status": s.status, "target_host": s.host, "due_after": s.dueAfter,
		"due_before": s.dueBefore, "last_outcome": s.lastOutcome,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return nil
}

// timerLister is one run of timer list, and its flags.
type timerLister struct {
	timerSelection

	tool       *tool
	sort       string
	desc       bool
	limit      int
	all, count bool
}

func (t *tool) timerList() *cobra.Command {
	l := &timerLister{tool: t}
	c := &cobra.Command{
		Use:   "list",
		Short: "list the timers of an app, or search for some",
		Example: "  carillon timer list -l team=pay,env!=dev --sort next_due\n" +
			"  carillon timer list --last-outcome failed -o wide\n" +
			"  carillon timer list --due-before 2h --count",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if l.all && l.limit > 0 {
				return usageError("--all and --limit exclude each other")
			}
			return t.withApp(func(api *client.Client, q url.Values) error {
				return l.run(c, api, q)
			})
		},
	}
	f := c.Flags()
	l.addFlags(f)
	f.StringVar(&l.sort, "sort", "", "the order: id (the default), name, next_due or last_fired")
	f.BoolVar(&l.desc, "desc", false, "in the opposite order")
	f.IntVar(&l.limit, "limit", 0, "list at most so many; 0 lists all")
	f.BoolVar(&l.all, "all", false, "list all, which is the default")
	f.BoolVar(&l.count, "count", false, "print how many there are, and no timers")
	return c
}

func (l *timerLister) run(c *cobra.Command, api *client.Client, q url.Values) error {
	if err := l.query(q, time.Now()); err != nil {
		return err
	}
	if l.count {
		return l.printCount(c, api, q)
	}
	if l.sort != "" {
		q.Set("sort", l.sort)
	}
	if l.desc {
		q.Set("order", "desc")
	}
	timers, err := api.All(c.Context(), "/timers", q, l.limit)
	if err != nil {
		return err //nolint:wrapcheck // it says what the API answered
	}
	return l.tool.listOfApp(c.Context(), api, timers, timerColumns())
}

// printCount prints the number of timers. The API does not count far.
func (l *timerLister) printCount(c *cobra.Command, api *client.Client, q url.Values) error {
	q.Set("count", strconv.FormatBool(true))
	q.Set("limit", "1")
	page, err := api.Get(c.Context(), "/timers", q)
	if err != nil {
		return err //nolint:wrapcheck // it says what the API answered
	}
	if page.Int("total") == 0 {
		l.tool.hintUnknownApp(c.Context(), api)
	}
	minimum := page.Text("total_is_minimum") == strconv.FormatBool(true)
	switch {
	case !l.tool.printer.Human():
		return l.tool.printer.One(client.Object{
			"total": page["total"], "total_is_minimum": minimum,
		})
	case minimum:
		l.tool.sayf("%d or more", page.Int("total"))
	default:
		l.tool.sayf("%d", page.Int("total"))
	}
	return nil
}
