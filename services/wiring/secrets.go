package wiring

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// secretsFailedFor is how long the check reports a secret that could not be decrypted.
const secretsFailedFor = 10 * time.Minute

// secretsWatch decrypts secrets and reports those that it cannot. If all processes lack a key alike,
// they do not differ, each call that needs it fails, and otherwise only the history of fires tells.
type secretsWatch struct {
	keyring *encryption.Keyring
	now     func() time.Time
	log     zerolog.Logger // rate-limited
	failed  prometheus.Counter

	mu   sync.Mutex
	last time.Time // when one could not be decrypted
	err  error     // of that time
}

// watchSecrets returns what decrypts the secrets of this process. There must be encryption keys.
func (k *Kit) watchSecrets() (*secretsWatch, error) {
	if k.secrets != nil {
		return k.secrets, nil
	}
	w := &secretsWatch{
		keyring: k.Keyring,
		now:     time.Now, // it compares only its own times
		log:     k.Log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_secrets_unreadable_total",
			Help: "Secrets that a call or a signature needed and the encryption keys could not decrypt.",
		}),
	}
	if err := k.Registry.Register(w.failed); err != nil {
		return nil, fmt.Errorf("registering the metric of secrets: %w", err)
	}
	k.Health.SetOptional("secrets", w.check)
	k.secrets = w
	return w, nil
}

// Open implements callback.Opener and signing.Opener.
func (w *secretsWatch) Open(s timer.Sealed, b encryption.Binding) (encryption.Secret, error) {
	secret, err := w.keyring.Open(s, b)
	if err == nil {
		return secret, nil
	}
	w.failed.Inc()
	w.log.Warn().Err(err).Str("app", b.App).
		Msg("secret cannot be decrypted with the encryption keys of this process")
	w.mu.Lock()
	w.last, w.err = w.now(), fmt.Errorf("a secret of app %q: %w", b.App, err)
	w.mu.Unlock()
	return secret, err //nolint:wrapcheck // its callers know the text
}

// check fails while secrets could not be decrypted lately.
func (w *secretsWatch) check(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ago := w.now().Sub(w.last)
	if w.err == nil || ago > secretsFailedFor {
		return nil
	}
	return fmt.Errorf(
		"%w (%s ago): calls that need it fail; start api and executors with the key that encrypted it (encryption-keys), or enter the secret again",
		w.err,
		ago.Round(time.Second),
	)
}
