package cli

import (
	"encoding/json"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

func (t *tool) statsCommand() *cobra.Command {
	var step string
	c := &cobra.Command{
		Use:   "stats",
		Short: "count the finished fires of the app by minute, quarter or hour, with their lateness",
		Example: `  carillon stats
  carillon stats --from -24h --step 1h --timer invoices`,
		Args: usageArgs(cobra.NoArgs),
	}
	selected := newFireSelection(c.Flags())
	selected.instants["from"] = c.Flags().
		String("from", "", "from this instant on; an hour before --to by default")
	selected.instants["to"] = c.Flags().String("to", "", "up to this instant; now by default")
	c.Flags().StringVar(&step, "step", "1m", "count by 1m, 15m or 1h")
	c.RunE = func(c *cobra.Command, _ []string) error {
		query, err := selected.query()
		if err != nil {
			return err
		}
		query.Set("step", step)
		return t.withApp(func(api *client.Client, app url.Values) error {
			stats, err := api.Get(c.Context(), appPath(app, "/stats"), query)
			if err != nil {
				return err //nolint:wrapcheck // it says what the API answered
			}
			total := stats.Object("total")
			empty := total.Int("delivered")+total.Int("failed")+total.Int("skipped") == 0
			if err = t.showStats(stats); err == nil && empty {
				t.hintUnknownApp(c.Context(), api)
			}
			return err
		})
	}
	return c
}

func (t *tool) showStats(stats client.Object) error {
	if !t.printer.Human() {
		return t.printer.One(stats)
	}
	rows := stats.Objects("steps")
	total := stats.Object("total")
	total["begin"] = "total"
	if err := t.printer.List(append(rows, total), statsColumns()); err != nil {
		return err //nolint:wrapcheck // of the output
	}
	if stats["truncated"] == true {
		t.sayf("Only what finished since %s is counted; for more, pass --to %s",
			localTime(stats.Text("complete_from")), stats.Text("complete_from"))
	}
	return nil
}

func statsColumns() []output.Column {
	late := func(head, name string) output.Column {
		return output.Column{Head: head, Cell: func(o client.Object) string {
			l := o.Object("lateness")
			if l == nil {
				return "-"
			}
			return (time.Duration(l.Int(name)) * time.Millisecond).String()
		}}
	}
	return []output.Column{
		{Head: "BEGIN", Cell: func(o client.Object) string {
			if o["partial"] == true {
				return localTime(o.Text("begin")) + " (part)"
			}
			return localTime(o.Text("begin"))
		}},
		output.Field("DELIVERED", "delivered"),
		output.Field("FAILED", "failed"),
		output.Field("SKIPPED", "skipped"),
		late("P50", "p50_ms"), late("P95", "p95_ms"), late("P99", "p99_ms"), late("MAX", "max_ms"),
		{Head: "REASONS", Cell: describeReasons},
	}
}

// describeReasons lists reasons, the most frequent first.
func describeReasons(o client.Object) string {
	reasons := o.Object("reasons")
	names := make([]string, 0, len(reasons))
	for name := range reasons {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := reasons.Int(names[i]), reasons.Int(names[j])
		return a > b || a == b && names[i] < names[j]
	})
	for i, name := range names {
		names[i] = name + "=" + reasons.Text(name)
	}
	return strings.Join(names, " ")
}

func (t *tool) upcomingCommand() *cobra.Command {
	var hours int
	var minutes bool
	c := &cobra.Command{
		Use:   "upcoming",
		Short: "show how many fires of the app are due in the hours to come",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{"hours": {strconv.Itoa(hours)}}
			return t.withApp(func(api *client.Client, app url.Values) error {
				load, err := api.Get(c.Context(), appPath(app, "/upcoming"), query)
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				if err = t.showUpcoming(load, minutes); err == nil && load.Int("timers") == 0 {
					t.hintUnknownApp(c.Context(), api)
				}
				return err
			})
		},
	}
	const day = 24
	c.Flags().IntVar(&hours, "hours", day, "how far to look ahead, up to 48")
	c.Flags().BoolVar(&minutes, "minutes", false, "show each minute instead of each hour")
	return c
}

// showUpcoming prints a bar for each hour or minute, and what is not counted.
func (t *tool) showUpcoming(load client.Object, minutes bool) error {
	if !t.printer.Human() {
		return t.printer.One(load)
	}
	const width = 50
	rows := load.Objects("minutes")
	if !minutes {
		rows = byHour(rows)
	}
	most := int64(1)
	for _, row := range rows {
		most = max(most, row.Int("count"))
	}
	err := t.printer.List(rows, []output.Column{
		{Head: "BEGIN", Cell: func(o client.Object) string { return localTime(o.Text("begin")) }},
		output.Field("FIRES", "count"),
		{Head: "LOAD", Cell: func(o client.Object) string {
			return strings.Repeat("#", int((o.Int("count")*width+most-1)/most))
		}},
	})
	if err != nil {
		return err //nolint:wrapcheck // of the output
	}
	if peak := load.Object("peak"); peak != nil {
		t.sayf("%s fires of %s timers; at most %s in the minute of %s", load.Text("total"),
			load.Text("timers"), peak.Text("count"), localTime(peak.Text("begin")))
	} else {
		t.sayf("no fires are due")
	}
	switch n := load.Int("sampled_timers"); {
	case n == 1:
		t.sayf("1 timer is due so often that its fires are estimated")
	case n > 0:
		t.sayf("%d timers are due so often that their fires are estimated", n)
	}
	left := load.Object("left_out")
	switch n := left.Int("fixed_delays") + left.Int("max_fires"); {
	case n == 1:
		t.sayf("1 timer is not counted: a fixed delay, or the last of max_fires")
	case n > 0:
		t.sayf("%d timers are not counted: fixed delays, or the last of max_fires", n)
	}
	if due := left.Text("due_after"); due != "" {
		t.sayf(
			"the app has more timers: those due after %s are not counted, and some that are due "+
				"several times an hour",
			localTime(due),
		)
	} else if left["more_timers"] == true {
		t.sayf("the app has more timers than are examined: some are not counted")
	}
	return nil
}

// byHour adds up minutes.
func byHour(minutes []client.Object) (hours []client.Object) {
	var last string
	var sum int64
	for _, m := range minutes {
		at, err := time.Parse(time.RFC3339, m.Text("begin"))
		if err != nil {
			continue
		}
		if begin := at.Truncate(time.Hour).Format(time.RFC3339); begin != last {
			last, sum = begin, 0
			hours = append(hours, client.Object{"begin": begin})
		}
		sum += m.Int("count")
		hours[len(hours)-1]["count"] = json.Number(strconv.FormatInt(sum, 10))
	}
	return hours
}
