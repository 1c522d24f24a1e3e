package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/backup"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/progress"
	"github.com/carillon-timer/carillon/services/wiring"
)

const restoreUsage = `carillon restore DIRECTORY   restore a backup into an empty database, whose services are stopped

The database is that of -mysql-dsn, or a new one for carillon dev in -data-dir. It gets its tables.
A restore that was interrupted continues with the same command. Until it has finished, no service
starts. If the backup turns out to be damaged, restore another one in its place. With
-encryption-keys, or -encryption-keys-file, it checks that they open every secret.
`

// Restore loads a backup into an empty database.
func Restore(
	ctx context.Context, args []string, env process.Env, stdout, stderr io.Writer,
) (err error) {
	defer func() {
		if errors.Is(err, backup.ErrNotMigrated) {
			return // it says what to do
		}
		err = withRemedy(
			ctx,
			err,
			"the restore is not complete, and once it has begun, no service starts until it is: repeat the command, which continues",
		)
	}()
	var (
		db   wiring.NewDatabase
		keys config.Encryption
		l    config.Log
	)
	set := config.NewSet("carillon restore", &db, &keys, &l)
	words, _, settings := splitArgs(args, new(flag.FlagSet), set)
	if asksForHelp(settings) {
		fmt.Fprint(stdout, restoreUsage+"\n")
	}
	err = set.Load(settings, env, stdout)
	if len(words) != 1 && !errors.Is(err, config.ErrDone) {
		return usageError(restoreUsage)
	}
	if err != nil {
		return err //nolint:wrapcheck // each problem is told as it is
	}
	keyring, file, err := keyringOf(&db, &keys)
	if err != nil {
		return err
	}
	log, err := logging.New(stderr, l.Level, l.Format, "restore")
	if err != nil {
		return err //nolint:wrapcheck // it says what it is about
	}
	// Before anything is made: a wrong directory is the likeliest mistake.
	if _, err := backup.Read(words[0]); err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	target, err := db.Restore(ctx, log)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	secrets := &secretCheck{store: target.Store(), keyring: keyring, file: file}
	bar := progress.New(stderr, "verifying and restoring rows", progress.Unknown)
	m, err := backup.Restore(ctx, words[0], target, backup.Options{
		Progress: bar.Set, Check: secrets.run,
	})
	bar.Done()
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	fmt.Fprintf(stdout, "restored %s: %s\n", words[0], summary(m))
	return printLine(stdout, secrets.result(db.KeyringFile()))
}

// keyringOf returns the keyring of the settings, or that of the data directory and its file, or nil.
func keyringOf(
	db *wiring.NewDatabase, keys *config.Encryption,
) (r *encryption.Keyring, file string, err error) {
	r, err = keys.Keyring()
	if r != nil || err != nil || db.KeyringFile() == "" {
		return r, "", err //nolint:wrapcheck // it names the setting
	}
	r, err = encryption.LoadKeyring(db.KeyringFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	return r, db.KeyringFile(), err //nolint:wrapcheck // it says what it was doing
}

// secretCheck looks at every secret of a store, and decrypts it if there are keys.
type secretCheck struct {
	store   secretStore
	keyring *encryption.Keyring // nil: there are no keys
	file    string              // from which the keyring was read; "": from a setting

	found, failed int
	first         error  // of those that failed
	unread        int    // definitions that this release cannot read, which may have secrets
	firstUnread   string // why
}

// run returns an error if the keys do not open all secrets.
func (c *secretCheck) run(ctx context.Context) error {
	c.found, c.failed, c.first = 0, 0, nil
	c.unread, c.firstUnread = 0, ""
	visit := &secretVisitor{
		store: c.store,
		definition: func(key store.VersionKey, d timer.Definition, app string) error {
			if d.Unreadable != "" {
				if c.unread++; c.unread == 1 {
					c.firstUnread = d.Unreadable
				}
				return nil
			}
			c.note(fmt.Sprintf("version %d of timer %s", key.Version, key.Timer), func() error {
				return c.open(d, app)
			})
			return nil
		},
		signingKey: func(k store.SigningKey) error {
			c.note(fmt.Sprintf("signing key %s of app %q", k.ID, k.App), func() error {
				_, err := c.keyring.Open(
					k.Secret, encryption.Binding{App: k.App, Use: encryption.UseSigning},
				)
				return err
			})
			return nil
		},
	}
	if err := visit.all(ctx); err != nil {
		return err
	}
	if c.failed > 0 {
		return fmt.Errorf(
			"the encryption keys do not open %d of %d definitions and signing keys (%w): "+
				"give the keys of the deployment, with the old ones if the backup is from before a rotation, "+
				"and repeat the command, which continues; or %s, to restore without this check",
			c.failed, c.found, c.first, c.without(),
		)
	}
	return nil
}

// without says how to give no keys.
func (c *secretCheck) without() string {
	if c.file != "" {
		return "move " + c.file + " away, which has these keys"
	}
	return "give none"
}

// open decrypts all secrets of a definition.
func (c *secretCheck) open(d timer.Definition, app string) (err error) {
	binding := encryption.Binding{App: app, Use: encryption.UseTarget}
	d.MapSealed(func(s timer.Sealed) timer.Sealed {
		if s != "" && err == nil {
			_, err = c.keyring.Open(s, binding)
		}
		return s
	})
	return err
}

// note counts a definition or key. Its error names no secret.
func (c *secretCheck) note(what string, open func() error) {
	c.found++
	if c.keyring == nil {
		return
	}
	if err := open(); err != nil {
		c.failed++
		if c.first == nil {
			c.first = fmt.Errorf("%s: %w", what, err)
		}
	}
}

// result says what is known of the secrets, and what comes next. file is the keyring that the first
// process of the data directory reads or makes.
func (c *secretCheck) result(file string) string {
	text := "Start the services: what was due meanwhile follows the misfire policy of each timer."
	if c.unread > 0 {
		text = fmt.Sprintf(
			"%d definitions may have secrets, which were not checked: %s.\n%s",
			c.unread, c.firstUnread, text,
		)
	}
	switch {
	case c.found == 0:
		return text
	case c.keyring == nil:
		text = fmt.Sprintf(
			"%d definitions and signing keys have secrets, which were not checked: no encryption keys were given.\n"+
				"Give the services the keys of the deployment, or they cannot open these secrets.\n%s",
			c.found,
			text,
		)
	default:
		text = fmt.Sprintf(
			"%d definitions and signing keys have secrets, and the encryption keys open all of them.\n%s",
			c.found,
			text,
		)
	}
	if file == "" {
		return text
	}
	if _, err := os.Stat(file); err != nil {
		text = fmt.Sprintf(
			"Put the encryption keys into %s, or set encryption-keys-file: carillon dev does not start without them.\n%s",
			file,
			text,
		)
	}
	return text
}
