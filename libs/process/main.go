package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/config"
)

// Exit codes.
const (
	exitFailed   = 1
	exitUsage    = 2   // invalid settings
	exitSignaled = 130 // a second signal
)

// Env looks up a variable of the program's environment.
type Env func(key string) (value string, ok bool)

// RunFunc is a program. It returns nil when it was told to stop and did.
type RunFunc func(ctx context.Context, args []string, env Env, stdout, stderr io.Writer) error

// Main runs a program until SIGINT, SIGTERM or SIGHUP and exits with its code: 0, 2 for invalid
// settings (including unknown CARILLON_… variables), otherwise 1. Errors go to stderr as plain lines.
// With the single argument `probe` it checks whether the program already running is ready, and runs
// nothing. SIGHUP stays ignored where it is at the start, as by nohup.
func Main(program string, run RunFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2) //nolint:mnd // the first and the second
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals
		cancel()
		// A lost terminal may send SIGHUP twice: by the shell, and by the system when the shell ends.
		for again := range signals {
			if again != syscall.SIGHUP {
				break
			}
		}
		fmt.Fprintln(os.Stderr, program+": second signal, ending at once")
		os.Exit(exitSignaled)
	}()
	//nolint:mnd // the program and its one argument
	if len(os.Args) == 2 && os.Args[1] == probeCommand {
		run = func(ctx context.Context, _ []string, env Env, stdout, _ io.Writer) error {
			return probe(ctx, env, stdout)
		}
	}
	clock.SpreadTicks()
	err := config.CheckEnv(os.Environ())
	if err == nil {
		err = run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	}
	os.Exit(exitCode(program, err, os.Stderr))
}

func exitCode(program string, err error, stderr io.Writer) int {
	var problems *config.Problems
	switch {
	case err == nil, errors.Is(err, config.ErrDone):
		return 0
	case errors.As(err, &problems):
		for _, p := range problems.List {
			fmt.Fprintln(stderr, p)
		}
		return exitUsage
	default:
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return exitFailed
	}
}

// version is set by the linker: -ldflags "-X …/libs/process.version=v1.2.3".
var version string

// Version returns the release, otherwise the commit, otherwise "dev".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return s.Value[:12]
			}
		}
	}
	return "dev"
}
