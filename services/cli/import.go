package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/importer"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
	"github.com/carillon-timer/carillon/services/cli/internal/progress"
)

func (t *tool) importCommand() *cobra.Command {
	var from string
	var apply bool
	var o importer.Options
	c := &cobra.Command{
		Use:   "import --from SYSTEM FILE",
		Short: "convert the schedules of another system to files for apply",
		Long: "It prints the definitions, and on standard error for each entry what could not be carried over\n" +
			"and why. With --apply it applies them instead; with --app, none of another app. Systems:\n" +
			"crontab, a user's file of cron; cron.d, /etc/crontab and files of /etc/cron.d, with a user before\n" +
			"each command; kubernetes, CronJobs as kubectl get -o yaml prints them;\n" +
			"xtimer, timers as JSON; xxl-job, jobs as JSON (of /jobinfo/pageList);\n" +
			"eventbridge, schedules as aws scheduler get-schedule prints them.",
		Example: "  carillon import --from crontab jobs.txt --url https://example.com/run/{name} > jobs.yaml",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			o.App = t.target.App
			data, err := t.readFile(c.Context(), args[0])
			if err != nil {
				return err
			}
			results, err := importer.Read(from, data, o)
			if err != nil {
				return usageError("--from: " + err.Error())
			}
			if len(results) == 0 {
				fmt.Fprintf(t.errOut, "nothing to import: there is no entry in %s\n", args[0])
				return nil
			}
			if apply {
				return t.applyImported(c, results)
			}
			return t.printImported(results)
		},
	}
	c.Flags().StringVar(&from, "from", "", "system: "+strings.Join(importer.Systems(), ", "))
	c.Flags().
		StringVar(&o.URL, "url", "", "URL for entries that call none; {name} in it is the timer's name")
	c.Flags().
		StringVar(&o.Zone, "tz", "", "IANA time zone of entries without one; the deployment's by default")
	c.Flags().BoolVar(&apply, "apply", false, "apply the definitions instead of printing them")
	complete := cobra.FixedCompletions(importer.Systems(), cobra.ShellCompDirectiveNoFileComp)
	if err := c.RegisterFlagCompletionFunc("from", complete); err != nil {
		panic(err) // the flag was added above
	}
	return c
}

// readFile reads a file, or standard input for "-".
func (t *tool) readFile(ctx context.Context, path string) ([]byte, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(t.input(ctx))
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the file to import: %w", err)
	}
	return data, nil
}

// incompleteError makes an import fail that left something out.
type incompleteError struct{ entries int }

func (e incompleteError) Error() string {
	if e.entries == 1 {
		return "1 entry could not be carried over: see above"
	}
	return fmt.Sprintf("%d entries could not be carried over: see above", e.entries)
}

// notes prints what is different of an entry. It returns whether it could not be carried over.
func (t *tool) notes(r *importer.Result) (left bool) {
	for _, note := range r.Notes {
		fmt.Fprintf(t.errOut, "%s: note: %s\n", r.Source, note)
	}
	for _, why := range r.Refused {
		fmt.Fprintf(t.errOut, "%s: left out: %s\n", r.Source, why)
	}
	return len(r.Refused) > 0
}

func (t *tool) printImported(results []importer.Result) error {
	left := 0
	for i := range results {
		if t.notes(&results[i]) {
			left++
		}
		if results[i].Manifest == nil {
			continue
		}
		data, err := results[i].Manifest.YAML()
		if err != nil {
			return err //nolint:wrapcheck // it says what it was doing
		}
		if _, err := fmt.Fprintf(t.out, "---\n%s", data); err != nil {
			return err //nolint:wrapcheck // of the output
		}
	}
	if left > 0 {
		return incompleteError{left}
	}
	return nil
}

// applyImported applies all entries that can be carried over. An entry that the API refuses is
// left out, and the others go on.
func (t *tool) applyImported(c *cobra.Command, results []importer.Result) error {
	var timers []*manifest.Manifest
	var others []error
	left := 0
	for i := range results {
		if t.notes(&results[i]) {
			left++
		}
		if results[i].Manifest == nil {
			continue
		}
		timers = append(timers, results[i].Manifest)
		others = append(others, t.otherApp(results[i].Manifest, ""))
	}
	if err := errors.Join(others...); err != nil {
		return usageError(err.Error())
	}
	err := t.withClient(func(api *client.Client) error {
		bar := progress.New(t.errOut, "importing", int64(len(timers)))
		defer bar.Done()
		each := func(batch []*manifest.Manifest, done []applied) error {
			defer bar.Add(int64(len(batch)))
			return bar.Above(func() error {
				n, err := t.reportImported(batch, done)
				left += n
				return err
			})
		}
		return t.applyTimers(c.Context(), api, timers, each)
	})
	if err == nil && left > 0 {
		err = incompleteError{left}
	}
	return err
}

// reportImported prints what became of a batch of entries. It returns how many the API refused, and
// fails if it was unable to write one.
func (t *tool) reportImported(batch []*manifest.Manifest, done []applied) (left int, err error) {
	for i, m := range batch {
		e, refused := errors.AsType[*client.Error](done[i].err)
		switch {
		case refused && e.Status < http.StatusInternalServerError:
			fmt.Fprintf(t.errOut, "%s: left out: %v\n", m.Source, e)
			left++
		case done[i].err != nil:
			return left, fmt.Errorf("%s: %w", m.Source, done[i].err)
		default:
			if err := t.report(&apply{}, done[i].change); err != nil {
				return left, err
			}
		}
	}
	return left, nil
}
