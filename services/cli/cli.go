// Package cli is the command line tool carillon. Each command is a file.
package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/allinone"
)

// command is one command of the tool.
type command struct {
	name, what string
	run        func(
		ctx context.Context,
		args []string,
		env process.Env,
		stdout, stderr io.Writer,
	) error
}

func commands() []command {
	return []command{
		{
			"dev",
			"run everything in one process: SQLite in ./data, in-memory bus and window",
			allinone.Dev,
		},
		{"setup", "run the migrations and create the topics of a cluster, then exit", Setup},
		{
			"topics",
			"show a cluster's topics: backlogs, subscriptions, messages; redrive failed fires",
			Topics,
		},
		{
			"try",
			"create a timer in a cluster that calls this process, and check that the call is recorded",
			Try,
		},
		{"echo", "run an endpoint that prints each call", echo},
		{"reencrypt", "encrypt the secrets in the database under a new encryption key", Reencrypt},
		{"version", "print the version", version},
		{"admin-key", "print a new admin key", AdminKey},
		{"encryption-key", "print a new encryption key", EncryptionKey},
	}
}

// Run runs the command that the first argument names.
func Run(
	ctx context.Context,
	args []string,
	env process.Env,
	stdout, stderr io.Writer,
) error {
	if len(args) == 0 {
		return usageError(usage())
	}
	name, rest := args[0], args[1:]
	for _, c := range commands() {
		if c.name == name {
			return c.run(ctx, rest, env, stdout, stderr)
		}
	}
	switch name {
	case "-version", "--version":
		return version(ctx, rest, env, stdout, stderr)
	case "help", "-help", "--help", "-h":
		_, err := fmt.Fprint(stdout, usage())
		return err //nolint:wrapcheck // it says what it was doing
	}
	return &config.Problems{List: []string{fmt.Sprintf("carillon: no command %q", name), usage()}}
}

func usage() string {
	var b strings.Builder
	b.WriteString("carillon <command> [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-15s %s\n", c.name, c.what)
	}
	b.WriteString("\ncarillon <command> -help lists the flags.\n")
	return b.String()
}

func version(_ context.Context, _ []string, _ process.Env, stdout, _ io.Writer) error {
	return printLine(stdout, process.Version())
}
