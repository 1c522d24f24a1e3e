package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

func (t *tool) appCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "app",
		Short: "list, show, freeze, limit and delete apps",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	freeze := t.onApp(
		"freeze [APP]",
		"skip all fires of the app from now on",
		http.MethodPost,
		"/freeze",
	)
	var reason string
	freeze.Flags().StringVar(&reason, "reason", "", "why; shown until it is unfrozen")
	freeze.RunE = func(c *cobra.Command, args []string) error {
		return t.callApp(c, args, http.MethodPost, "/freeze", client.Object{"reason": reason})
	}
	c.AddCommand(
		t.appList(),
		t.onApp("get [APP]", "show the app", http.MethodGet, ""),
		t.withDryRun(freeze),
		t.withDryRun(
			t.onApp("unfreeze [APP]", "end the freeze of the app", http.MethodPost, "/unfreeze")),
		t.onApp(
			"settings [APP]", "show the limits and rules of the app", http.MethodGet, "/settings"),
		t.appLimit(),
		t.appAllow(),
		t.appDelete(),
	)
	return c
}

func (t *tool) appList() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "list the apps that the key is for, by name",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return t.withClient(func(api *client.Client) error {
				apps, err := api.All(c.Context(), "/apps", nil, limit)
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				for _, a := range apps { // what the format name prints
					a["name"] = a["app"]
				}
				return t.printer.List(apps, []output.Column{
					output.Field("APP", "app"),
					output.Field("FROZEN", "frozen"),
					{
						Head: "SINCE",
						Cell: func(o client.Object) string { return localTime(o.Text("frozen_since")) },
					},
					{
						Head: "REASON",
						Cell: func(o client.Object) string { return printable(o.Text("reason")) },
					},
				})
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 0, "list at most so many; 0 lists all")
	return c
}

// listOfApp prints a list of what the app has.
func (t *tool) listOfApp(
	ctx context.Context, api *client.Client, items []client.Object, columns []output.Column,
) error {
	err := t.printer.List(items, columns)
	if err == nil && len(items) == 0 {
		t.hintUnknownApp(ctx, api)
	}
	return err
}

// hintUnknownApp says beside an empty list that there is no such app. The list is right even so: an
// app exists from its first timer on. Without an answer it says nothing.
func (t *tool) hintUnknownApp(ctx context.Context, api *client.Client) {
	if unknown, ok := errors.AsType[unknownAppError](t.findApp(ctx, api)); ok {
		fmt.Fprintln(t.errOut, unknown)
	}
}

// unknownAppError is the name of an app that does not exist.
type unknownAppError string

func (e unknownAppError) Error() string {
	return fmt.Sprintf(
		"there is no app %q yet: carillon app list shows those that there are", string(e),
	)
}

// findApp returns an error unless the app exists.
func (t *tool) findApp(ctx context.Context, api *client.Client) error {
	_, err := api.Get(ctx, "/apps/"+url.PathEscape(t.target.App), nil)
	if client.NotFound(err) {
		return unknownAppError(t.target.App)
	}
	return err //nolint:wrapcheck // it says what the API answered
}

// takeApp makes the argument the app, if there is one. It wins over a variable and the context, which
// may be meant for other commands, but not over --app of the same command line.
func (t *tool) takeApp(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if t.app != "" && t.app != args[0] {
		return usageError(fmt.Sprintf(
			"--app: expected %q, as the argument says, found %q: leave one of them out",
			args[0], t.app,
		))
	}
	t.target.App = args[0]
	return nil
}

// onApp returns a command that sends one request about the app.
func (t *tool) onApp(use, short, method, below string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return t.callApp(c, args, method, below, nil)
		},
	}
}

func (t *tool) callApp(c *cobra.Command, args []string, method, below string, body any) error {
	if err := t.takeApp(args); err != nil {
		return err
	}
	return t.withApp(func(api *client.Client, app url.Values) error {
		answer, err := api.Do(
			c.Context(),
			method,
			"/apps/"+url.PathEscape(app.Get("app"))+below,
			nil,
			body,
		)
		if err != nil || answer == nil {
			return err //nolint:wrapcheck // it says what the API answered
		}
		return t.printer.One(answer)
	})
}
