package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/allinone"
)

// program is a command that reads its settings itself, by flags, environment and file, as services
// do.
type program struct {
	name, what string
	run        process.RunFunc
	usage      string // its arguments; empty: it takes settings alone
}

func programs() []program {
	return []program{
		{
			name: "dev",
			what: "run everything in one process: SQLite in ./data, in-memory bus and window",
			run:  allinone.Dev,
		},
		{
			name: "setup",
			what: "run the migrations and create the topics of a cluster, then exit",
			run:  Setup,
		},
		{
			name:  "topics",
			what:  "show a cluster's topics: backlogs, subscriptions, messages",
			run:   Topics,
			usage: topicsUsage,
		},
		{
			name: "try",
			what: "create a timer in a cluster that calls this process, and check that the call is recorded",
			run:  Try,
		},
		{name: "echo", what: "run an endpoint that prints each call", run: echo},
		{
			name:  "backup",
			what:  "write a backup of the database into a directory, or verify one",
			run:   Backup,
			usage: backupUsage,
		},
		{
			name:  "restore",
			what:  "restore a backup into an empty database",
			run:   Restore,
			usage: restoreUsage,
		},
		{
			name: "reencrypt",
			what: "encrypt the secrets in the database under a new encryption key",
			run:  Reencrypt,
		},
		{name: "admin-key", what: "print a new admin key", run: AdminKey},
		{name: "encryption-key", what: "print a new encryption key", run: EncryptionKey},
	}
}

// The groups of commands in the help.
const (
	groupUse     = "use"
	groupOperate = "operate"
)

// Root returns the whole tool as a cobra command.
func Root(env process.Env, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	t := &tool{env: env, in: stdin, out: stdout, errOut: stderr}
	root := &cobra.Command{
		Use:               "carillon",
		Short:             "Run timers that call back on time, and run the service itself",
		Version:           process.Version(),
		Args:              usageArgs(cobra.NoArgs),
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors:     true, // the program prints them
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return t.prepare() },
	}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError(fmt.Sprintf("%v; %s --help lists the flags", err, c.CommandPath()))
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
		t.personCommand(),
		t.redriveCommand("redrive failed fires; the same as dead redrive"), t.contextCommand(), t.benchCommand(),
	} {
		c.GroupID = groupUse
		root.AddCommand(c)
	}
	for _, p := range programs() {
		root.AddCommand(&cobra.Command{
			Use: p.name, Short: p.what, Long: p.usage, GroupID: groupOperate,
			DisableFlagParsing: true, // it parses its own
			PersistentPreRunE:  func(*cobra.Command, []string) error { return nil },
			RunE: func(c *cobra.Command, args []string) error {
				return p.run(c.Context(), args, env, stdout, stderr)
			},
		})
	}
	root.AddCommand(
		&cobra.Command{
			Use:     "version",
			Short:   "print the version",
			GroupID: groupOperate,
			Args:    usageArgs(cobra.NoArgs),
			RunE:    func(*cobra.Command, []string) error { return printLine(stdout, process.Version()) },
		},
		t.docsCommand(),
	)
	return root
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
	if len(args) == 1 && args[0] == "-version" { // as the services have it
		args = []string{"--version"}
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // it was told to stop
	}
	return err //nolint:wrapcheck // each command says what it was doing
}

// usageArgs makes wrong arguments an error of usage. An empty one is wrong, too: it is a variable of
// a script that is not set, and must not mean all timers or the first.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
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
