package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/contexts"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

func (t *tool) contextCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "context",
		Short: "keep the deployments that you work with, and choose one",
		Long: "A context is the address of an API, an app, and a file with the API key. Contexts are in\n" +
			"carillon/contexts.yaml in your configuration directory. They hold no key.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		// A context that does not exist must not stop the commands that could make it.
		PersistentPreRunE: t.withoutContext,
	}
	c.AddCommand(
		t.contextList(),
		t.contextSet(),
		t.onContext(
			"use NAME",
			"make a context the current one",
			func(f *contexts.File, name string) (string, error) {
				if _, err := f.Find(name); err != nil {
					return "", usageError(err.Error())
				}
				f.Current = name
				return "context " + name + " is the current one", nil
			},
		),
		t.onContext(
			"delete NAME",
			"delete a context",
			func(f *contexts.File, name string) (string, error) {
				if _, err := f.Find(name); err != nil {
					return "", usageError(err.Error())
				}
				delete(f.Contexts, name)
				if f.Current == name {
					f.Current = ""
				}
				return "context " + name + " deleted", nil
			},
		),
	)
	return c
}

func (t *tool) contextList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the contexts; a star marks the current one",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			f, err := t.loadContexts()
			if err != nil {
				return err
			}
			var all []client.Object
			for _, name := range f.Names() {
				c := f.Contexts[name]
				all = append(all, client.Object{
					"name":     name,
					"api":      c.API,
					"app":      c.App,
					"key_file": c.KeyFile,
					"ca_file":  c.CAFile,
					"current":  name == f.Current,
				})
			}
			return t.printer.List(all, []output.Column{
				{Head: "CURRENT", Cell: func(o client.Object) string {
					return strings.Repeat("*", map[bool]int{true: 1}[o["current"] == true])
				}},
				output.Field(
					"NAME",
					"name",
				),
				output.Field("API", "api"),
				output.Field("APP", "app"),
				output.Field("KEY FILE", "key_file").
					AsWide(),
				output.Field("CA FILE", "ca_file").AsWide(),
			})
		},
	}
}

func (t *tool) contextSet() *cobra.Command {
	var ca string
	c := t.onContext(
		"set NAME [--api ADDRESS] [--app APP] [--key-file FILE]",
		"create or change a context; the first is the current one",
		func(f *contexts.File, name string) (string, error) {
			c := f.Contexts[name]
			for _, file := range []*string{&t.credentials.file, &ca} { // commands run in any folder
				if *file == "" {
					continue
				}
				path, err := filepath.Abs(*file)
				if err != nil {
					return "", fmt.Errorf("finding %s: %w", *file, err)
				}
				*file = path
			}
			for to, given := range map[*string]string{
				&c.API: t.api, &c.App: t.app, &c.KeyFile: t.credentials.file, &c.CAFile: ca,
			} {
				if given != "" {
					*to = given
				}
			}
			if c.API == "" {
				return "", usageError(
					"--api: expected the address of the API, such as https://carillon.example.com",
				)
			}
			if err := checkAPI(c.API); err != nil {
				return "", err
			}
			f.Contexts[name] = c
			if f.Current == "" {
				f.Current = name
			}
			return fmt.Sprintf("context %s: %s", name, c.API), nil
		},
	)
	c.Flags().StringVar(&ca, "ca-file", "", "PEM file of the CA that signed the API's certificate")
	return c
}

// onContext returns a command that changes the file of contexts.
func (t *tool) onContext(
	use, short string,
	do func(f *contexts.File, name string) (said string, err error),
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := t.contextsPath(); err != nil {
				return err
			}
			f, err := t.loadContexts()
			if err != nil {
				return err
			}
			said, err := do(f, args[0])
			if err != nil {
				return err
			}
			if err := f.Save(); err != nil {
				return err //nolint:wrapcheck // it names the file
			}
			t.sayf("%s", said)
			return nil
		},
	}
}

func (t *tool) completeContexts(
	*cobra.Command,
	[]string,
	string,
) ([]string, cobra.ShellCompDirective) {
	f, err := t.loadContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return f.Names(), cobra.ShellCompDirectiveNoFileComp
}
