package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillon-timer/carillon/libs/process"
)

// The groups of commands in the help.
const (
	groupUse     = "use"
	groupOperate = "operate"
)

// Root returns the whole tool as a cobra command.
func Root(env process.Env, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	t := &tool{env: env, in: stdin, out: stdout, errOut: stderr}
	root := &cobra.Command{
		Use:           "carillon",
		Short:         "Run timers that call back on time, and run the service itself",
		Version:       process.Version(),
		Args:          usageArgs(cobra.NoArgs),
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true, // the program prints them
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, args []string) error {
			if completesProgram(c, args) {
				// It takes none of them.
				c.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
			}
			if n, err := c.Flags().GetInt("limit"); err == nil && n < 0 {
				return usageError("--limit is negative")
			}
			if needsNoContext(c) {
				return t.withoutContext(c, args)
			}
			return t.prepare()
		},
	}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// Of an unknown command the flags are unknown too, and are not what is wrong.
		if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		return flagError(c, err)
	})
	root.AddGroup(
		&cobra.Group{ID: groupUse, Title: "Commands of users, which call the API:"},
		&cobra.Group{ID: groupOperate, Title: "Commands of operators:"},
	)
	root.SetHelpCommandGroupID(groupOperate)
	root.SetCompletionCommandGroupID(groupOperate)
	t.addFlags(root)
	for _, c := range []*cobra.Command{
		t.timerCommand(), t.explainCommand(), t.fireCommand(), t.deadCommand(),
		t.firesCommand(), t.statsCommand(), t.upcomingCommand(), t.eventsCommand(),
		t.auditCommand(),
		t.previewCommand(), t.applyCommand(),
		t.diffCommand(), t.exportCommand(), t.importCommand(), t.calendarCommand(),
		t.backfillCommand(), t.jobCommand(), t.appCommand(), t.keyCommand(),
		t.signingKeyCommand(),
		t.personCommand(),
		t.redriveCommand("redrive failed fires; the same as dead redrive"), t.contextCommand(), t.benchCommand(),
	} {
		c.GroupID = groupUse
		root.AddCommand(c)
	}
	for _, p := range programs() {
		root.AddCommand(p.command(env, stdout, stderr))
	}
	root.AddCommand(
		&cobra.Command{
			Use:     "version",
			Short:   "print the version",
			GroupID: groupOperate,
			Args:    usageArgs(cobra.NoArgs),

			PersistentPreRunE: t.withoutContext,

			RunE: func(*cobra.Command, []string) error { return printLine(stdout, process.Version()) },
		},
		t.docsCommand(),
	)
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		c.PersistentPreRunE = t.withoutContext
	}
	refuseEmpty(root)
	return root
}

// negative matches an argument that looks like a short flag and is a number or a duration.
var negative = regexp.MustCompile(`^-[0-9]`)

// flagHint returns what to do about a flag that cannot be read.
func flagHint(c *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if ok {
		if arg := "-" + unknown.GetSpecifiedShortnames(); negative.MatchString(arg) {
			return "write -- before an argument that begins with a dash: -- " + arg
		}
	}
	return c.CommandPath() + " --help lists the flags"
}

// Run runs the command that the first argument names.
func Run(
	ctx context.Context,
	args []string,
	env process.Env,
	stdout, stderr io.Writer,
) error {
	return run(ctx, args, env, os.Stdin, stdout, stderr)
}

func run(
	ctx context.Context,
	args []string,
	env process.Env,
	stdin io.Reader,
	stdout, stderr io.Writer,
) error {
	root := Root(env, stdin, stdout, stderr)
	if len(args) == 1 && (args[0] == "-version" || args[0] == "-help") { // as the services have it
		args = []string{"-" + args[0]}
	}
	if err := oneDash(root, args); err != nil {
		return err
	}
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		if runsUntilStopped(command) {
			return nil
		}
		if unfinished, ok := errors.AsType[*unfinishedError](err); ok {
			return fmt.Errorf("%w\n%s", errStopped, unfinished.remedy)
		}
		return errStopped
	}
	return err //nolint:wrapcheck // each command says what it was doing
}

// runsUntilStopped returns whether a command has no other end than that it is told to stop.
func runsUntilStopped(c *cobra.Command) bool {
	switch c.CommandPath() {
	case "carillon dev", "carillon echo", "carillon bench receive":
		return true
	case "carillon timer watch":
		count, _ := c.Flags().GetInt("count")
		return count == 0
	case "carillon events":
		follow, _ := c.Flags().GetBool("follow")
		return follow
	}
	return false
}

// errStopped is the error of another command that was told to stop. It hides the cause, which a
// process takes for success.
var errStopped = errors.New(
	"stopped before it was done: what it was to change may be changed or not",
)

// usageArgs makes wrong arguments an error of usage. An empty one is wrong, too: it is a variable of
// a script that is not set, and must not mean all timers or the first.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			if c.HasSubCommands() && len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return usageError(fmt.Sprintf("%v; %s --help shows the usage", err, c.CommandPath()))
		}
		if i := slices.Index(args, ""); i >= 0 {
			return usageError(fmt.Sprintf(
				"argument %d is empty; %s --help shows the usage", i+1, c.CommandPath(),
			))
		}
		return nil
	}
}

// unknownCommand returns the error of an argument that is no command of a group.
func unknownCommand(c *cobra.Command, name string) error {
	const distance = 2 // typing errors, as cobra allows at its root
	c.SuggestionsMinimumDistance = distance
	meant := ""
	if all := c.SuggestionsFor(name); name != "" && len(all) > 0 {
		meant = ", did you mean " + strings.Join(all, " or ") + "?"
	}
	return usageError(fmt.Sprintf(
		"unknown command %q for %q%s; %s --help shows the usage",
		name, c.CommandPath(), meant, c.CommandPath(),
	))
}
