package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/store/backup"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/progress"
	"github.com/carillon-timer/carillon/services/wiring"
)

const backupUsage = `carillon backup DIRECTORY          write a backup of the database into a new directory
carillon backup verify DIRECTORY   check every file of a backup, without a database

Services may run meanwhile. The database is that of -mysql-dsn, or that of carillon dev in -data-dir.
A backup that was interrupted is begun anew by the same command.
`

// Backup writes the database into a directory, or verifies that directory.
func Backup(
	ctx context.Context, args []string, env process.Env, stdout, stderr io.Writer,
) (err error) {
	defer func() { err = withRemedy(ctx, err, "there is no result: repeat the command, which begins anew") }()
	var (
		db wiring.Database
		l  config.Log
	)
	set := config.NewSet("carillon backup", &db, &l)
	words, _, settings := splitArgs(args, new(flag.FlagSet), set)
	if asksForHelp(settings) {
		fmt.Fprint(stdout, backupUsage+"\n")
	}
	if len(words) > 0 && words[0] == "verify" {
		return verifyBackup(ctx, words[1:], settings, stdout, stderr)
	}
	err = set.Load(settings, env, stdout)
	if len(words) != 1 && !errors.Is(err, config.ErrDone) {
		return usageError(backupUsage)
	}
	if err != nil {
		return err //nolint:wrapcheck // each problem is told as it is
	}
	log, err := logging.New(stderr, l.Level, l.Format, "backup")
	if err != nil {
		return err //nolint:wrapcheck // it says what it is about
	}
	src, err := db.Snapshot(ctx, log)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	bar := progress.New(stderr, "backing up rows", progress.Unknown)
	m, err := backup.Write(ctx, src, words[0], backup.Options{
		Version: process.Version(), Progress: bar.Set,
	})
	bar.Done()
	if err = errors.Join(err, src.Close()); err != nil {
		return err
	}
	return printLine(stdout, fmt.Sprintf("backed up into %s: %s", words[0], summary(m)))
}

func verifyBackup(
	ctx context.Context, words, settings []string, stdout, stderr io.Writer,
) error {
	err := config.NewSet("carillon backup verify").Load(settings, noEnvironment, stdout)
	if err != nil {
		return err //nolint:wrapcheck // each problem is told as it is
	}
	if len(words) != 1 {
		return usageError(backupUsage)
	}
	dir := words[0]
	bar := progress.New(stderr, "verifying rows", progress.Unknown)
	m, err := backup.Verify(ctx, dir, backup.Options{Progress: bar.Set})
	bar.Done()
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	return printLine(stdout, fmt.Sprintf("%s is complete and undamaged: %s", dir, summary(m)))
}

// withRemedy adds to the error of a command that was stopped, or for which a disk or the database had
// no room or no time, what to do. That a command was told to stop is no success for a script that
// continues with the result.
func withRemedy(ctx context.Context, err error, then string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.New("stopped: " + then)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room on that disk; %s", err, then)
	case timer.CodeOf(err) == timer.CodeUnavailable:
		return fmt.Errorf("%w; %s", err, then)
	}
	return err
}

// asksForHelp reports whether the flags of a command, and their values, look like a request for its
// usage.
func asksForHelp(flags []string) bool {
	return slices.ContainsFunc(flags, func(f string) bool {
		name := strings.TrimLeft(f, "-")
		return name != f && (name == "h" || name == "help")
	})
}

// summary says what a backup has.
func summary(m *backup.Manifest) string {
	files, bytes := m.Size()
	return fmt.Sprintf(
		"%d rows of %d tables in %d files, %d bytes; as of %s, from %s, schema %d, release %s",
		m.Rows(), len(m.Tables), files, bytes, m.At.Format(time.RFC3339Nano), m.Database, m.Schema,
		m.Carillon,
	)
}
