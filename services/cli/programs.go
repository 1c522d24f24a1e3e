package cli

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/allinone"
)

// program is a command that reads its settings itself, by flags, environment and file, as services
// do.
type program struct {
	name, what string
	run        process.RunFunc
	usage      string   // its arguments; empty: it takes settings alone
	words      []string // that its first argument may be
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
			words: []string{"list", "backlog", "subscriptions", "peek", "reset"},
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
			words: []string{"verify"},
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

// command returns the program as a command.
func (p *program) command(env process.Env, stdout, stderr io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: p.name, Short: p.what, Long: p.usage, GroupID: groupOperate,
		DisableFlagParsing: true, // it parses its own
		PersistentPreRunE:  func(*cobra.Command, []string) error { return nil },
		RunE: func(c *cobra.Command, args []string) error {
			return p.run(c.Context(), args, env, stdout, stderr)
		},
		ValidArgsFunction: func(
			c *cobra.Command, args []string, word string,
		) ([]cobra.Completion, cobra.ShellCompDirective) {
			if strings.HasPrefix(word, "-") {
				return p.flags(c, word), cobra.ShellCompDirectiveNoFileComp
			}
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault // of files
			}
			return slices.DeleteFunc(slices.Clone(p.words), func(w string) bool {
				return !strings.HasPrefix(w, word)
			}), cobra.ShellCompDirectiveDefault
		},
	}
}

// helpFlag matches a flag of a program's help, and what it is for.
var helpFlag = regexp.MustCompile(`(?m)^ {2,4}(-\S+).*?(?:\n\s+| {2,})(.*)$`)

// flags returns the flags of a program that begin with a word, as its help has them.
func (p *program) flags(c *cobra.Command, word string) (all []cobra.Completion) {
	var help bytes.Buffer
	none := func(string) (string, bool) { return "", false }
	_ = p.run(c.Context(), []string{"--help"}, none, &help, io.Discard) // it says that it helped
	dashes := word[:len(word)-len(strings.TrimLeft(word, "-"))]
	for _, m := range helpFlag.FindAllStringSubmatch(help.String(), -1) {
		name := m[1]
		if dashes == "--" { // both are the same
			name = "-" + name
		}
		if strings.HasPrefix(name, word) {
			all = append(all, cobra.CompletionWithDesc(name, m[2]))
		}
	}
	return all
}

// needsNoContext returns whether the command shows help, or completes a command line. A completion that
// asks the API reads the context itself.
func needsNoContext(c *cobra.Command) bool {
	return !c.HasParent() || c.Name() == "help" || c.Name() == cobra.ShellCompRequestCmd
}

// completesProgram returns whether the command completes the command line of a program.
func completesProgram(c *cobra.Command, args []string) bool {
	return c.Name() == cobra.ShellCompRequestCmd && len(args) > 0 &&
		slices.ContainsFunc(programs(), func(p program) bool { return p.name == args[0] })
}
