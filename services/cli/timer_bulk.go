package cli

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// bulk selects timers for a job, and says how the job is started.
type bulk struct {
	tool *tool

	labels, prefix, contains, status, host string
	all, yes, noWait                       bool
}

var errNoTimers = usageError("expected names of timers, a filter such as -l, or --all, found none")

// addBulk gives a command that names timers a form that selects them. body returns what the job
// does, besides the filter.
func (t *tool) addBulk(c *cobra.Command, body func() (client.Object, error)) *cobra.Command {
	b := &bulk{tool: t}
	b.addFlags(c)
	c.Use += " | -l SELECTOR | --all"
	one, args := c.RunE, c.Args
	c.Args = func(c *cobra.Command, names []string) error {
		switch {
		case b.selects():
			return nil
		case len(names) == 0:
			return errNoTimers
		}
		return args(c, names)
	}
	c.RunE = func(c *cobra.Command, names []string) error {
		if !b.selects() {
			return one(c, names)
		}
		if len(names) > 0 {
			return usageError(
				"expected names of timers or a filter, found both: give one of the two",
			)
		}
		request, err := body()
		if err != nil {
			return err
		}
		return b.run(c, request)
	}
	return c
}

func (b *bulk) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&b.labels, "labels", "l", "", "timers with labels such as team=pay,env!=dev")
	f.StringVar(&b.prefix, "name-prefix", "", "timers whose name begins so")
	f.StringVar(&b.contains, "contains", "", "timers whose name contains this")
	f.StringVar(&b.status, "status", "", "timers of this status: active, inactive or paused")
	f.StringVar(&b.host, "target-host", "", "timers that call this host")
	f.BoolVar(&b.all, "all", false, "all timers of the app, where there is no other filter")
	b.tool.withDryRun(c)
	f.BoolVar(&b.yes, "yes", false, "with a filter: do not ask")
	f.BoolVar(&b.noWait, "no-wait", false, "with a filter: do not wait until the job ends")
}

// selects reports whether flags select timers.
func (b *bulk) selects() bool { return b.all || len(b.filter()) > 0 }

func (b *bulk) filter() client.Object {
	f := client.Object{}
	setIf(f, "labels", b.labels)
	setIf(f, "name_prefix", b.prefix)
	setIf(f, "name_contains", b.contains)
	setIf(f, "status", b.status)
	setIf(f, "target_host", b.host)
	return f
}

// run asks how many timers are selected, asks the user, and starts the job. A timer that begins to
// match in between is changed, too.
func (b *bulk) run(c *cobra.Command, request client.Object) error {
	t := b.tool
	request["filter"], request["all"] = b.filter(), b.all
	return t.withApp(func(api *client.Client, app url.Values) error {
		dry, err := api.Do(
			c.Context(),
			http.MethodPost,
			jobPath(app, ""),
			url.Values{"dry_run": {"true"}},
			request,
		)
		if err != nil {
			return err //nolint:wrapcheck // it says what the API answered
		}
		if t.dryRun {
			return b.showDryRun(dry)
		}
		if dry.Int("total") == 0 && dry["at_least"] != true {
			return errors.New("no timer is selected")
		}
		with := ""
		if dry.Text("action") == "delete" {
			with = ", with their dead letters"
		}
		question := fmt.Sprintf("%s %s timers of %s%s?",
			capital(dry.Text("action")), totalOf(dry), app.Get("app"), with)
		if err := t.confirm(c.Context(), b.yes, question); err != nil {
			return err
		}
		var job client.Object
		if request["action"] == "run" { // the others change nothing more when they are repeated
			job, err = t.doOnce(c.Context(), api, jobPath(app, ""), nil, request)
		} else {
			job, err = api.Do(c.Context(), http.MethodPost, jobPath(app, ""), nil, request)
		}
		if err != nil {
			return err //nolint:wrapcheck // it says what the API answered
		}
		return t.afterStart(c, api, app, job, b.noWait)
	})
}

// afterStart follows a job, or prints it.
func (t *tool) afterStart(
	c *cobra.Command,
	api *client.Client,
	app url.Values,
	job client.Object,
	noWait bool,
) error {
	if t.dryRun {
		if t.printer.Human() {
			t.sayf("%s would change %s timers", job.Text("action"), totalOf(job))
			return nil
		}
		return t.printer.One(job)
	}
	if !noWait {
		return t.followJob(c.Context(), api, app, job)
	}
	if !t.printer.Human() {
		return t.printer.One(job)
	}
	t.sayf("job %s is running: carillon job watch %s", job.Text("id"), job.Text("id"))
	return nil
}

func (b *bulk) showDryRun(dry client.Object) error {
	t := b.tool
	if !t.printer.Human() {
		return t.printer.One(dry)
	}
	for _, tm := range dry.Objects("sample") {
		t.sayf("%s  %s  %s", printable(tm.Text("name")), tm.Text("status"), describeLabels(tm))
	}
	t.sayf("%s timers would be selected for %s", totalOf(dry), dry.Text("action"))
	return nil
}

func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// action returns the body of a job without parameters.
func action(name string) func() (client.Object, error) {
	return func() (client.Object, error) { return client.Object{"action": name}, nil }
}

// pauseJob returns the body of a job that pauses.
func pauseJob(reason, until *string) func() (client.Object, error) {
	return func() (client.Object, error) {
		body := client.Object{"action": "pause"}
		setIf(body, "reason", *reason)
		if *until != "" {
			at, err := instant(*until, time.Now())
			if err != nil {
				return nil, usageError("--until: " + err.Error())
			}
			body["until"] = at
		}
		return body, nil
	}
}

// timerLabel changes labels. As in kubectl, NAME=VALUE sets a label and NAME- removes one.
func (t *tool) timerLabel() *cobra.Command {
	b := &bulk{tool: t}
	c := &cobra.Command{
		Use:   "label (NAME|ID... | -l SELECTOR | --all) LABEL=VALUE... LABEL-...",
		Short: "set and remove labels of timers",
		Example: `  carillon timer label invoices team=pay legacy-
  carillon timer label -l team=pay env=prod --dry-run`,
		Args:              usageArgs(cobra.MinimumNArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, args []string) error {
			names, set, remove, err := splitLabels(args)
			if err != nil {
				return err
			}
			if len(set)+len(remove) == 0 {
				return usageError(
					fmt.Sprintf("expected a label to set (team=pay) or to remove (team-), found %q",
						args),
				)
			}
			switch {
			case !b.selects() && len(names) == 0:
				return errNoTimers
			case !b.selects():
				return t.labelNamed(c, names, set, remove)
			case len(names) > 0:
				return usageError(
					"expected names of timers or a filter, found both: give one of the two",
				)
			}
			body := client.Object{"action": "relabel"}
			if len(set) > 0 {
				body["set_labels"] = set
			}
			if len(remove) > 0 {
				body["remove_labels"] = remove
			}
			return b.run(c, body)
		},
	}
	b.addFlags(c)
	return c
}

// splitLabels tells names of timers from labels. The names come first, as in kubectl.
func splitLabels(args []string) (names []string, set client.Object, remove []string, err error) {
	set = client.Object{}
	known := make(map[string]bool)
	for _, arg := range args {
		label, value, sets := strings.Cut(arg, "=")
		removed, removes := strings.CutSuffix(arg, "-")
		switch {
		case sets:
			set[label] = value
		case removes:
			label = removed
			remove = append(remove, label)
		default:
			names = append(names, arg)
			continue
		}
		if known[label] {
			err = usageError(labelTwice(label).Error())
		}
		known[label] = true
	}
	return names, set, remove, err
}

func labelTwice(name string) error {
	return fmt.Errorf("expected each label once, found %q twice", name)
}

// labelNamed changes the labels of named timers. A change of the timer in the meantime makes it a
// conflict.
func (t *tool) labelNamed(
	c *cobra.Command,
	names []string,
	set client.Object,
	remove []string,
) error {
	return t.eachTimer(
		c.Context(),
		names,
		func(api *client.Client, app url.Values, tm client.Object) error {
			labels := client.Object{}
			for name, v := range tm.Object("labels") {
				if !slices.Contains(remove, name) {
					labels[name] = v
				}
			}
			maps.Copy(labels, set)
			return t.patch(c.Context(), api, app, tm, client.Object{"labels": labels}, "labelled")
		},
	)
}

// appDelete deletes an app. It needs the app's name once more, as the API does.
func (t *tool) appDelete() *cobra.Command {
	var confirm string
	var noWait bool
	c := &cobra.Command{
		Use:     "delete APP --confirm APP",
		Short:   "delete an app with all its timers, calendars, keys and settings",
		Example: "  carillon app delete shop --confirm shop",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if confirm != args[0] {
				return usageError(fmt.Sprintf(
					"--confirm: expected the app's name once more, %q, found %q", args[0], confirm,
				))
			}
			return t.withClient(func(api *client.Client) error {
				app := url.Values{"app": args}
				job, err := api.Do(
					c.Context(), http.MethodDelete, "/apps/"+url.PathEscape(args[0]),
					url.Values{"confirm": {confirm}}, nil,
				)
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				return t.afterStart(c, api, app, job, noWait)
			})
		},
	}
	c.Flags().StringVar(&confirm, "confirm", "", "the app's name once more")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until the job ends")
	return t.withDryRun(c)
}
