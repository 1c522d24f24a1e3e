package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
	"github.com/carillon-timer/carillon/services/cli/internal/progress"
)

const (
	// defaultJobs is how many jobs a list shows.
	defaultJobs = 50
	// jobPoll is how often a job or a backfill is looked at.
	jobPoll = 500 * time.Millisecond
	// lookTimeout is how long the looks at a job may fail.
	lookTimeout = time.Minute
	// jobLine is how often progress is printed where there is no terminal.
	jobLine = 5 * time.Second
)

func jobPath(app url.Values, id string) string {
	path := "/apps/" + url.PathEscape(app.Get("app")) + "/jobs"
	if id != "" {
		path += "/" + url.PathEscape(id)
	}
	return path
}

func (t *tool) jobCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "job",
		Short: "list, follow and cancel the jobs that change many timers",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(t.jobList(), t.jobGet(), t.jobCancel(), t.jobWatch())
	return c
}

func jobColumns() []output.Column {
	return []output.Column{
		output.Field("ID", "id"),
		output.Field("ACTION", "action"),
		output.Field("STATUS", "status"),
		output.Field("TOTAL", "total"),
		output.Field("DONE", "done"),
		output.Field("FAILED", "failed"),
		{
			Head: "CREATED",
			Cell: func(o client.Object) string { return localTime(o.Text("created_at")) },
		},
		{
			Head: "FINISHED",
			Cell: func(o client.Object) string { return localTime(o.Text("finished_at")) },
		},
		{
			Head: "LABELS",
			Cell: func(o client.Object) string { return o.Object("filter").Text("labels") },
			Wide: true,
		},
	}
}

func (t *tool) jobList() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "list the jobs of the app, latest first",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				jobs, err := api.All(c.Context(), jobPath(app, ""), nil, limit)
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				return t.listOfApp(c.Context(), api, jobs, jobColumns())
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", defaultJobs, "list at most so many; 0 lists all")
	return c
}

// onJob returns a command that sends one request about a job and prints it.
func (t *tool) onJob(use, short, method, below string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, ids []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				job, err := api.Do(c.Context(), method, jobPath(app, ids[0])+below, nil, nil)
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				return t.printer.One(job)
			})
		},
	}
}

func (t *tool) jobGet() *cobra.Command {
	return t.onJob("get ID", "show a job with its first errors", http.MethodGet, "")
}

func (t *tool) jobCancel() *cobra.Command {
	return t.withDryRun(
		t.onJob("cancel ID", "end a job; what it has changed stays", http.MethodPost, "/cancel"))
}

func (t *tool) jobWatch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "follow a job until it ends; fails if it did not do all",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, ids []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				job, err := api.Get(c.Context(), jobPath(app, ids[0]), nil)
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				return t.followJob(c.Context(), api, app, job)
			})
		},
	}
}

// deleteApp is the action of the job that deletes an app: its timers, and then its keys with the rest.
const deleteApp = "delete_app"

// followJob shows the progress of a job until it ends: as a bar on a terminal, otherwise as lines.
// Ctrl-C ends the command, which fails then, and not the job.
func (t *tool) followJob(
	ctx context.Context,
	api *client.Client,
	app url.Values,
	job client.Object,
) error {
	show, end := t.jobProgress(job)
	defer end()
	told := "" // the failure that was shown last
	for job.Text("status") == "running" {
		show(job)
		if why := job.Text("failure"); why != told {
			if told = why; why != "" {
				t.sayf("a page was not carried out, and is tried again: %s", printable(why))
			}
		}
		id, action := job.Text("id"), job.Text("action")
		var err error
		if job, err = look(ctx, api, jobPath(app, id), nil); err != nil {
			end()
			if action == deleteApp && client.Unauthorized(err) {
				t.sayf("the timers of the app are deleted, and its keys, with this one: "+
					"job %s ends by itself, and the admin key shows it", id)
				return nil
			}
			if !client.NotFound(err) {
				fmt.Fprintf(t.errOut, "job %s goes on: carillon job watch %s\n", id, id)
			}
			return err
		}
	}
	end()
	return t.jobEnd(job)
}

// look waits a moment and reads how far a job or backfill is. It repeats after errors that may
// pass, such as of an API that begins anew, for lookTimeout.
func look(
	ctx context.Context, api *client.Client, path string, query url.Values,
) (client.Object, error) {
	for until := time.Now().Add(lookTimeout); ; {
		clock.Pause(ctx, jobPoll)
		found, err := api.Get(ctx, path, query)
		if err == nil || ctx.Err() != nil || !client.MayPass(err) || time.Now().After(until) {
			return found, err //nolint:wrapcheck // it says what the API answered
		}
	}
}

// jobProgress returns a function that shows how far a job is, and one that ends it.
func (t *tool) jobProgress(job client.Object) (show func(client.Object), end func()) {
	if !t.printer.Human() {
		return func(client.Object) {}, func() {}
	}
	if !isTerminal(t.errOut) {
		var last time.Time
		return func(j client.Object) {
			if now := time.Now(); now.Sub(last) >= jobLine && j.Text("status") == "running" {
				last = now
				t.sayf("%s: %d of %s", j.Text("action"), dealtWith(j), totalOf(j))
			}
		}, func() {}
	}
	total := max(job.Int("total"), 1)
	bar := progress.New(t.errOut, job.Text("action"), total)
	return func(j client.Object) { bar.Set(dealtWith(j), total) }, bar.Done
}

func dealtWith(job client.Object) int64 { return job.Int("done") + job.Int("failed") }

func totalOf(job client.Object) string {
	total := strconv.FormatInt(job.Int("total"), 10)
	if job["at_least"] == true {
		total = "at least " + total
	}
	return total
}

// jobEnd reports the end of a job. It is an error if the job did not change all timers.
func (t *tool) jobEnd(job client.Object) error {
	if !t.printer.Human() {
		if err := t.printer.One(job); err != nil {
			return err
		}
	}
	for _, e := range job.Objects("errors") {
		name := e.Text("name")
		if name == "" {
			name = e.Text("timer")
		}
		fmt.Fprintf(t.errOut, "%s: %s\n", printable(name), printable(e.Text("error")))
	}
	t.sayf(
		"%s %s: %d timers, %d failed",
		job.Text("action"), job.Text("status"), job.Int("done"), job.Int("failed"),
	)
	switch {
	case job.Text("status") == "failed":
		return errors.New("the job failed: " + job.Text("failure"))
	case job.Text("status") == "cancelled":
		return fmt.Errorf("the job was cancelled before it did all of its %s timers", totalOf(job))
	case job.Int("failed") > 0:
		return fmt.Errorf("%d timers could not be changed", job.Int("failed"))
	}
	return nil
}
