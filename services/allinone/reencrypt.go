package allinone

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

const (
	reencryptPage = 200 // rows of one look
	// where there is still something to do after so many, somebody goes on writing under an old
	// key.
	maxReencryptPasses = 20
)

// passSettings is the settings of Reseal's own.
type passSettings struct{ pause time.Duration }

// Register names them.
func (b *passSettings) Register(s *config.Set) {
	s.Duration(
		&b.pause,
		"pause",
		15*time.Second,
		"between a pass that changed something and the next; longer than a request takes, for one that had read the old text may write it again",
	)
}

// Validate checks them.
func (b *passSettings) Validate() error {
	if b.pause < 0 {
		return errors.New("pause: is less than 0")
	}
	return nil
}

// Reencrypt encrypts every stored secret anew that is not under the first of the encryption keys. It
// may run beside the services, may be stopped, and may be run again: what is done is left alone. It
// goes over all of them until there is nothing left to do: what an edit wrote behind its back, of a
// text that it had read before, is found by the next pass. It cannot know which ring the services
// have, and says so.
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
	if err := config.NewSet("carillon reseal", &db, &keys, &l, &wait).
		Load(args, env, stdout); err != nil {
		return err
	}
	keyring, err := keys.Keyring()
	if err != nil {
		return err
	}
	if keyring == nil {
		return &config.Problems{
			List: []string{"encryption-keys: missing: the new key first, the old ones behind it"},
		}
	}
	log, err := logging.New(stderr, l.Level, l.Format, "reseal")
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

// reencryptAll goes over everything until there is nothing left to do.
func reencryptAll(
	ctx context.Context,
	st store.Store,
	keyring *encryption.Keyring,
	pause time.Duration,
	out io.Writer,
) error {
	total := 0
	for pass := 1; ; pass++ {
		r := &reencryptPass{store: st, keyring: keyring, out: out}
		if err := errors.Join(r.definitions(ctx), r.signingKeys(ctx)); err != nil {
			return err
		}
		if total += r.changed; r.changed == 0 {
			return r.finish(total)
		}
		if pass == maxReencryptPasses {
			return fmt.Errorf(
				"after %d passes there is still something under an old key: give every service the new ring first, and run this again",
				pass,
			)
		}
		fmt.Fprintf(out, "pass %d: %d encrypted anew; once more in %s\n", pass, r.changed, pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("encrypting secrets anew: %w", ctx.Err())
		}
	}
}

// finish says what was done, and what has to be waited for before the old keys can go. r is the last
// pass, which changed nothing.
func (r *reencryptPass) finish(total int) error {
	fmt.Fprintf(
		r.out,
		"done: %d definitions and signing keys looked at, %d encrypted anew under %q, %d could not be\n",
		r.examined,
		total,
		r.keyring.First(),
		r.failed,
	)
	if r.failed > 0 {
		return errors.New("some secrets could not be encrypted anew: keep the old keys")
	}
	fmt.Fprintf(
		r.out,
		`Keep the old keys in encryption-keys until every service runs with %q first (and then run this once more, if one did not yet), and from then on:
- %s longer where targets complete asynchronously: the tokens of what they have accepted are derived from the old keys
- 24h longer in any case: creates with secrets that are repeated under an idempotency key are compared under the old keys
`,
		r.keyring.First(),
		hours(timer.MaxAsync),
	)
	return nil
}

func hours(d timer.Duration) string { return strconv.Itoa(int(time.Duration(d).Hours())) + "h" }

// reencryptPass is one pass over all secrets.
type reencryptPass struct {
	store   store.Store
	keyring *encryption.Keyring
	out     io.Writer

	examined, changed, failed int
}

func (r *reencryptPass) definitions(ctx context.Context) error {
	for after := (store.VersionKey{}); ; {
		page, next, err := r.store.SealedVersions(ctx, after, reencryptPage)
		if err != nil {
			return fmt.Errorf("reading definitions: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		apps, err := r.apps(ctx, page)
		if err != nil {
			return err
		}
		for key, d := range page {
			r.examined++
			reencrypted, changed, err := r.keyring.ReencryptDefinition(d, apps[key.Timer])
			if err == nil && changed {
				err = r.store.Reseal(ctx, key, reencrypted)
			}
			r.record(changed, err, fmt.Sprintf("version %d of timer %s", key.Version, key.Timer))
			if ctx.Err() != nil {
				return fmt.Errorf("encrypting definitions anew: %w", ctx.Err())
			}
		}
		fmt.Fprintf(
			r.out,
			"definitions up to timer %s: %d looked at, %d encrypted anew\n",
			next.Timer,
			r.examined,
			r.changed,
		)
		after = next
	}
}

// apps returns whose the timers are: secrets are bound to their app.
func (r *reencryptPass) apps(
	ctx context.Context,
	page map[store.VersionKey]timer.Definition,
) (map[timer.ID]string, error) {
	ids := make([]timer.ID, 0, len(page))
	for key := range page {
		ids = append(ids, key.Timer)
	}
	states, err := r.store.States(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading timers: %w", err)
	}
	apps := make(map[timer.ID]string, len(states))
	for i := range states {
		apps[states[i].ID] = states[i].App
	}
	return apps, nil
}

func (r *reencryptPass) signingKeys(ctx context.Context) error {
	for after := timer.ID(0); ; {
		page, err := r.store.AllSigningKeys(ctx, after, reencryptPage)
		if err != nil {
			return fmt.Errorf("reading signing keys: %w", err)
		}
		for _, k := range page {
			r.examined++
			after = k.ID
			sealed, changed, err := r.keyring.Reencrypt(
				k.Secret,
				encryption.Binding{App: k.App, Use: encryption.UseSigning},
			)
			if err == nil && changed {
				k.Secret = sealed
				err = r.store.ResealSigningKey(ctx, k)
			}
			r.record(changed, err, fmt.Sprintf("signing key %s of app %q", k.ID, k.App))
		}
		if len(page) == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// record counts one. What cannot be encrypted anew is told, and stops nothing else: a key that is
// missing is missing for some only.
func (r *reencryptPass) record(changed bool, err error, what string) {
	switch {
	case err != nil:
		r.failed++
		fmt.Fprintf(r.out, "%s stays as it is: %v\n", what, err)
	case changed:
		r.changed++
	}
}
