package cli

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
)

// timerTest calls the target of a definition, or of a timer that exists, once.
func (t *tool) timerTest() *cobra.Command {
	n := &newTimer{}
	c := &cobra.Command{
		Use:   "test NAME|ID | -f FILE",
		Short: "call the target of a timer or a definition once, and show its answer",
		Long: "The api calls the target as an executor would for a fire, with the header\n" +
			"Carillon-Cause: test. A topic gets a real message. The call is in the audit trail and in no\n" +
			"history. The command fails unless the target takes the call.",
		Example: `  carillon timer test invoices
  carillon timer test -f timer.yaml`,
		Args:              usageArgs(cobra.MaximumNArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, args []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				body, err := t.tested(c, n, api, app, args)
				if err != nil {
					return err
				}
				answer, err := api.Do(c.Context(), http.MethodPost, "/timers:test", nil, body)
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				return t.showTested(answer)
			})
		},
	}
	c.Flags().StringVarP(
		&n.file, "file", "f", "", "file with the definition instead of a timer; - is standard input",
	)
	return t.withDryRun(c)
}

// tested returns the definition whose target is called. Secrets of a timer that exists are REDACTED
// in it, and the API takes them from the timer.
func (t *tool) tested(
	c *cobra.Command, n *newTimer, api *client.Client, app url.Values, args []string,
) (client.Object, error) {
	switch {
	case n.file != "":
		return t.definition(c, n, args, app.Get("app"))
	case len(args) == 0:
		return nil, usageError("expected a timer, or a definition by --file")
	}
	tm, err := findTimer(c.Context(), api, app, args[0])
	if err != nil {
		return nil, err
	}
	return manifest.Of(manifest.Timer, tm).Body, nil
}

var errNotTaken = errors.New("the target did not take the call")

// showTested shows the answers to a test call.
func (t *tool) showTested(answer client.Object) error {
	if !t.printer.Human() {
		if err := t.printer.One(answer); err != nil {
			return err //nolint:wrapcheck // it says what it was doing
		}
	}
	if answer["dry_run"] == true {
		t.sayf("the target would be called")
		return nil
	}
	for _, call := range answer.Objects("calls") {
		if !t.printer.Human() {
			break
		}
		t.sayf("%s", describeTested(call))
		headers := call.Object("headers")
		for _, name := range sortedNames(headers) {
			t.sayf("  %s: %s", name, printable(headers.Text(name)))
		}
		if text := call.Text("answer"); text != "" {
			t.sayf("\n%s", printable(text))
		}
	}
	if answer.Text("outcome") == "failed" {
		return errNotTaken
	}
	return nil
}

// describeTested says in one line what became of a call.
func describeTested(call client.Object) string {
	var parts []string
	if name := call.Text("target"); name != "" {
		parts = append(parts, "target "+name+":")
	}
	parts = append(parts, call.Text("outcome"))
	if status := call.Text("status_code"); status != "" {
		parts = append(parts, status)
	}
	parts = append(parts, "in "+call.Text("duration_ms")+" ms")
	if why := call.Text("error"); why != "" {
		parts = append(parts, "("+call.Text("failure")+": "+why+")")
	}
	return printable(strings.Join(parts, " "))
}
