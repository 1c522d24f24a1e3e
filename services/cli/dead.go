package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
	"github.com/carillon-timer/carillon/services/cli/internal/progress"
)

const (
	// defaultDeadLetters is how many dead letters a list shows.
	defaultDeadLetters = 50
	maxRedrive         = 10_000 // fires per request
	redriveSample      = 20     // fires that the answer of a redrive shows
)

func (t *tool) deadCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "dead",
		Short: "list, show and redrive fires that failed for good",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	show := t.fireGet()
	show.Use, show.Short = "show ID...", "show dead letters with each attempt; the same as fire get"
	c.AddCommand(t.deadList(), show, t.redriveCommand("redrive failed fires"))
	return c
}

// deadSelection selects dead letters. Empty fields select all.
type deadSelection struct {
	timer, from, to, failure string
	again                    bool
}

func (d *deadSelection) addFlags(f *pflag.FlagSet) {
	f.StringVar(&d.timer, "timer", "", "only this timer's, by its name or id")
	f.StringVar(
		&d.from,
		"from",
		"",
		"only fires due at this instant or later, such as -24h",
	)
	f.StringVar(&d.to, "to", "", "only fires due before this instant")
	f.StringVar(
		&d.failure,
		"failure",
		"",
		"only fires with this failure: timeout, connect, status and so on",
	)
	f.BoolVar(&d.again, "again", false, "also fires that were redriven before")
}

// readInstants makes the instants absolute.
func (d *deadSelection) readInstants(t *tool) (err error) {
	now := time.Now()
	if d.from != "" {
		if d.from, err = t.repeatable("from", d.from, now); err != nil {
			return err
		}
	}
	if d.to != "" {
		d.to, err = t.repeatable("to", d.to, now)
	}
	return err
}

// fields returns the fields of the selection that are not empty.
func (d *deadSelection) fields() map[string]string {
	fields := map[string]string{"timer": d.timer, "from": d.from, "to": d.to, "failure": d.failure}
	for name, v := range fields {
		if v == "" {
			delete(fields, name)
		}
	}
	return fields
}

// query returns the parameters of the selection for a list.
func (d *deadSelection) query() url.Values {
	query := url.Values{}
	for name, v := range d.fields() {
		query.Set(name, v)
	}
	if d.again {
		query.Set("again", "true")
	}
	return query
}

func (t *tool) deadList() *cobra.Command {
	var selected deadSelection
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "list the dead letters of the app, those that ended first at the top",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := selected.readInstants(t); err != nil {
				return err
			}
			return t.withApp(func(api *client.Client, app url.Values) error {
				path := appPath(app, "/dead-letters")
				letters, err := api.All(c.Context(), path, selected.query(), limit)
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				return t.listOfApp(c.Context(), api, letters, deadColumns())
			})
		},
	}
	selected.addFlags(c.Flags())
	c.Flags().IntVar(&limit, "limit", defaultDeadLetters, "list at most so many; 0 lists all")
	return c
}

func deadColumns() []output.Column {
	return []output.Column{
		{
			Head: "FINISHED",
			Cell: func(o client.Object) string { return localTime(o.Text("finished_at")) },
		},
		{Head: "TIMER", Cell: func(o client.Object) string {
			return printable(cmp.Or(o.Text("timer_name"), o.Text("timer_id")))
		}},
		output.Field("FIRE", "id"),
		output.Field("REASON", "reason"),
		output.Field("ATTEMPTS", "attempts"),
		output.Field("CODE", "status_code"),
		output.Field("FAILURE", "failure"),
		{
			Head: "LAST ERROR",
			Cell: func(o client.Object) string { return printable(o.Text("last_error")) },
		},
		output.Field("REDRIVEN AS", "redriven_as").AsWide(),
	}
}

// redriver is one run of a redrive, and its flags.
type redriver struct {
	deadSelection

	tool   *tool
	fires  []string
	yes    bool
	limit  int
	cursor string
}

func (t *tool) redriveCommand(short string) *cobra.Command {
	r := &redriver{tool: t}
	c := &cobra.Command{
		Use:   "redrive",
		Short: short,
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := r.readInstants(t); err != nil {
				return err
			}
			return t.withApp(func(api *client.Client, app url.Values) error {
				return r.run(c.Context(), api, app.Get("app"))
			})
		},
	}
	f := c.Flags()
	r.addFlags(f)
	f.StringSliceVar(&r.fires, "fires", nil, "only these, by their ids, separated by commas")
	f.IntVar(&r.limit, "limit", 0, "redrive at most so many; 0 redrives all")
	f.StringVar(&r.cursor, "cursor", "", "go on where a redrive ended whose error has this cursor")
	f.BoolVar(&r.yes, "yes", false, "redrive; without it, only print what would be redriven")
	return t.withKey(c)
}

// run creates failed fires again, request by request. The API decides which fires. The cursor keeps
// it from selecting the new fires that have failed meanwhile.
func (r *redriver) run(ctx context.Context, api *client.Client, app string) error {
	total, cursor := int64(0), r.cursor
	bar := r.bar()
	defer bar.Done()
	for {
		got, err := r.call(ctx, api, app, total, cursor)
		if err != nil {
			return r.interrupted(err, total, cursor)
		}
		first := total == 0 // where few fires match, answers may have none before
		total += got.Int("count")
		cursor = got.Text("next_cursor")
		if first {
			err := bar.Above(func() error { return r.showSample(ctx, api, app, got) })
			if err != nil {
				return err
			}
		}
		dryRun, more := got.Text("dry_run") == "true", got.Text("more") == "true"
		switch {
		case total == 0 && more && cursor != "":
			continue
		case dryRun && more && (r.limit == 0 || total < int64(r.limit)):
			r.tool.sayf("%d or more would be redriven: add --yes to do it", total)
		case total == 0 && len(r.fires) > 0:
			r.sayNone()
		case dryRun:
			r.tool.sayf("%d would be redriven: add --yes to do it", total)
		case more && cursor != "" && (r.limit == 0 || total < int64(r.limit)):
			if bar == nil {
				r.tool.sayf("%d redriven, and there may be more", total)
			}
			bar.Set(total, r.total())
			continue
		default:
			bar.Done()
			r.tool.sayf("%d redriven", total)
			if more && (r.limit == 0 || total < int64(r.limit)) {
				r.tool.sayf("there may be more: run it again")
			}
		}
		if !r.tool.printer.Human() {
			got["count"] = total
			if err := r.tool.printer.One(got); err != nil {
				return err
			}
		}
		return nil
	}
}

// sayNone says that no fire that was named is redriven.
func (r *redriver) sayNone() {
	if r.again {
		r.tool.sayf("none of these is a dead letter: see carillon fire get")
		return
	}
	r.tool.sayf("none of these is a dead letter that is not redriven: see carillon fire get; " +
		"--again redrives once more")
}

// bar returns a bar where there may be more than one request.
func (r *redriver) bar() *progress.Bar {
	if !r.yes || len(r.fires) > 0 {
		return nil
	}
	return progress.New(r.tool.errOut, "redriving", r.total())
}

// total returns how many are redriven at most, as far as that is known.
func (r *redriver) total() int64 {
	if r.limit == 0 {
		return progress.Unknown
	}
	return int64(r.limit)
}

// showSample prints some of the fires, as dead list does.
func (r *redriver) showSample(
	ctx context.Context,
	api *client.Client,
	app string,
	got client.Object,
) error {
	sample := got.Objects("sample")
	if len(sample) == 0 || !r.tool.printer.Human() {
		return nil
	}
	r.describe(ctx, api, app, sample)
	return r.tool.printer.List(sample, deadColumns())
}

// describe adds the names of their timers and the last errors to fires. Lists of dead letters have
// these, and a list of the same selection begins with the same fires. Without an answer the ids of
// the timers stay: what is redriven does not depend on it.
func (r *redriver) describe(
	ctx context.Context, api *client.Client, app string, fires []client.Object,
) {
	selected := r.deadSelection
	selected.again = selected.again || r.yes // they are redriven by now
	if len(r.fires) > 0 {                    // a list selects none by ids
		selected.timer = fires[0].Text("timer_id")
	}
	query := selected.query()
	query.Set("limit", strconv.Itoa(redriveSample))
	page, err := api.Get(ctx, appPath(url.Values{"app": {app}}, "/dead-letters"), query)
	if err != nil {
		return
	}
	names, letters := map[string]string{}, map[string]client.Object{}
	for _, letter := range page.Objects("items") {
		names[letter.Text("timer_id")] = letter.Text("timer_name")
		letters[letter.Text("id")] = letter
	}
	for _, f := range fires {
		setIf(f, "timer_name", names[f.Text("timer_id")])
		setIf(f, "last_error", letters[f.Text("id")].Text("last_error"))
	}
}

// interrupted says after an error what is done already, and how to go on: the same command begins
// anew, and with --again or --limit it would redrive others, or the same again.
func (r *redriver) interrupted(err error, done int64, cursor string) error {
	flags := ""
	if done > 0 && cursor != "" {
		flags = " --cursor " + cursor
		if r.limit > 0 {
			flags += fmt.Sprintf(" --limit %d", int64(r.limit)-done)
		}
	}
	if client.Unknown(err) { // the last request may have redriven others
		flags += r.tool.repeatFlags()
	} else if flags != "" {
		flags += r.tool.resolved
	}
	switch {
	case !r.yes || flags == "":
		return err
	case done == 0:
		return &unfinishedError{err, lostAnswer + flags}
	}
	return &unfinishedError{
		err, fmt.Sprintf("%d were redriven: go on by the same command with%s", done, flags),
	}
}

func (r *redriver) call(
	ctx context.Context,
	api *client.Client,
	app string,
	done int64,
	cursor string,
) (client.Object, error) {
	ask := client.Object{"dry_run": !r.yes, "again": r.again}
	if cursor != "" {
		ask["cursor"] = cursor
	}
	for name, v := range r.fields() {
		ask[name] = v
	}
	if len(r.fires) > 0 {
		ask["fires"] = r.fires
	}
	if r.limit > 0 {
		ask["limit"] = min(int64(r.limit)-done, maxRedrive)
	}
	path := "/apps/" + url.PathEscape(app) + "/redrives"
	key := r.tool.idempotencyKey
	if r.yes { // a dry run makes nothing that a key would tell from another one's
		key = r.tool.key()
	}
	got, err := api.DoOnce(ctx, key, path, nil, ask)
	if err == nil && got == nil {
		err = errors.New("redriving: the API answered nothing")
	}
	return got, err //nolint:wrapcheck // it says what the API answered
}
