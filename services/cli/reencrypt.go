package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/wiring"
)

// maxReencryptPasses is how many passes there are at most. If work remains after them, a service
// still writes under an old key.
const maxReencryptPasses = 20

// passSettings are Reencrypt's own settings.
type passSettings struct{ pause time.Duration }

// Register registers the settings.
func (b *passSettings) Register(s *config.Set) {
	s.Duration(
		&b.pause,
		"pause",
		15*time.Second,
		"pause between passes; longer than a request takes, because a request that has read the old text may write it again",
	)
}

// Validate checks the settings.
func (b *passSettings) Validate() error {
	if b.pause < 0 {
		return errors.New("pause: is less than 0")
	}
	return nil
}

// Reencrypt encrypts every stored secret that is not under the first encryption key again, under
// that key. It may run beside the services, may be stopped at any time, and may run again: it skips
// what is done. It repeats until a pass changes nothing. So it also finds what an edit wrote in the
// meantime from text that it had read before. It cannot know the keyrings of the services, so its
// output says what to check.
func Reencrypt(
	ctx context.Context,
	args []string,
	env process.Env,
	stdout, stderr io.Writer,
) (err error) {
	var (
		db   wiring.Database
		keys config.Encryption
		l    config.Log
		wait passSettings
	)
	if err := config.NewSet("carillon reencrypt", &db, &keys, &l, &wait).
		Load(args, env, stdout); err != nil {
		return err
	}
	keyring, err := keys.Keyring()
	if err != nil {
		return err
	}
	if keyring == nil {
		return &config.Problems{
			List: []string{"encryption-keys: missing: give the new key first, then the old ones"},
		}
	}
	log, err := logging.New(stderr, l.Level, l.Format, "reencrypt")
	if err != nil {
		return err
	}
	st, err := db.Open(ctx, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return reencryptAll(ctx, st, keyring, wait.pause, stdout)
}

// reencryptAll repeats passes until one changes nothing.
func reencryptAll(
	ctx context.Context,
	st secretStore,
	keyring *encryption.Keyring,
	pause time.Duration,
	out io.Writer,
) error {
	total := 0
	for pass := 1; ; pass++ {
		r := &reencryptPass{store: st, keyring: keyring, out: out}
		if err := r.run(ctx); err != nil {
			return err
		}
		if total += r.changed; r.changed == 0 {
			return r.finish(total)
		}
		if pass == maxReencryptPasses {
			return fmt.Errorf(
				"after %d passes there are still secrets under an old key: give every service the new keyring first, and run this again",
				pass,
			)
		}
		fmt.Fprintf(out, "pass %d: %d reencrypted; next pass in %s\n", pass, r.changed, pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("reencrypting secrets: %w", ctx.Err())
		}
	}
}

// finish prints what was done, and what to wait for before the old keys can be removed. r is the
// last pass, which changed nothing.
func (r *reencryptPass) finish(total int) error {
	fmt.Fprintf(
		r.out,
		"done: %d definitions and signing keys checked, %d reencrypted under %q, %d failed\n",
		r.examined,
		total,
		r.keyring.First(),
		r.failed,
	)
	if r.failed > 0 {
		return errors.New("some secrets could not be reencrypted: keep the old keys. For what a " +
			"newer release wrote, run the carillon reencrypt of that release")
	}
	fmt.Fprintf(
		r.out,
		`Keep the old keys in encryption-keys until every service runs with %q first. If one did not yet, run this again then. After that, keep them:
- %s longer if targets complete asynchronously: the tokens of accepted fires derive from the old keys
- 24h longer in any case: repeated creates with secrets and an idempotency key are compared under the old keys
Then remove them there, but keep a copy while you have backups from before this reencryption: to restore one, give the old keys after the new one, and run this again.
`,
		r.keyring.First(),
		hours(timer.MaxAsync),
	)
	return nil
}

func hours(d timer.Duration) string { return strconv.Itoa(int(time.Duration(d).Hours())) + "h" }

// reencryptPass is one pass over all secrets.
type reencryptPass struct {
	store   secretStore
	keyring *encryption.Keyring
	out     io.Writer

	examined, changed, failed int
}

// run visits all secrets.
func (r *reencryptPass) run(ctx context.Context) error {
	v := &secretVisitor{
		store: r.store,
		definition: func(key store.VersionKey, d timer.Definition, app string) error {
			r.examined++
			what := fmt.Sprintf("version %d of timer %s", key.Version, key.Timer)
			if d.Unreadable != "" {
				r.record(false, errors.New(d.Unreadable), what)
				return ctx.Err()
			}
			reencrypted, changed, err := r.keyring.ReencryptDefinition(d, app)
			if err == nil && changed {
				err = r.store.Reseal(ctx, key, reencrypted)
			}
			r.record(changed, err, what)
			return ctx.Err()
		},
		page: func(last timer.ID) {
			fmt.Fprintf(
				r.out,
				"definitions up to timer %s: %d checked, %d reencrypted\n",
				last,
				r.examined,
				r.changed,
			)
		},
		signingKey: func(k store.SigningKey) error {
			r.examined++
			sealed, changed, err := r.keyring.Reencrypt(
				k.Secret,
				encryption.Binding{App: k.App, Use: encryption.UseSigning},
			)
			if err == nil && changed {
				k.Secret = sealed
				err = r.store.ResealSigningKey(ctx, k)
			}
			r.record(changed, err, fmt.Sprintf("signing key %s of app %q", k.ID, k.App))
			return ctx.Err()
		},
	}
	return v.all(ctx)
}

// record counts one item. A failed item is printed and does not stop the pass, because a missing
// key concerns only some items. One that was removed since it was read is no failure.
func (r *reencryptPass) record(changed bool, err error, what string) {
	switch {
	case timer.CodeOf(err) == timer.CodeNotFound:
	case err != nil:
		r.failed++
		fmt.Fprintf(r.out, "%s was not reencrypted: %v\n", what, err)
	case changed:
		r.changed++
	}
}
