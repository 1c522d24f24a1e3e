package cache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// oldApps is a store that answers with settings read before a change.
type oldApps struct {
	Store
	once   sync.Once
	during func()
}

func (s *oldApps) AppsByID(ctx context.Context, ids []int64) ([]store.App, error) {
	apps, err := s.Store.AppsByID(ctx, ids)
	s.once.Do(s.during)
	return apps, err
}

func TestSettingsReadBeforeAChangeAreDiscarded(t *testing.T) {
	t.Parallel()
	parts := servicetest.New(t, servicetest.Options{})
	app, err := parts.Store.PutSettings(t.Context(), "a", store.AppSettings{Rate: 1}, 0)
	require.NoError(t, err)
	g := new(settings)
	st := &oldApps{Store: parts.Store}
	apps := newApps(Options{Store: st, SetLimits: g.Set})
	st.during = func() {
		_, err := parts.Store.PutSettings(t.Context(), "a", store.AppSettings{Rate: 2}, 0)
		require.NoError(t, err)
		apps.forget(app.ID)
	}
	_, err = apps.Of(t.Context(), AppQuestion{app.ID, "a"})
	require.NoError(t, err)
	require.Equal(t, []limit.Settings{{Rate: 2}}, g.set)
	_, err = apps.Of(t.Context(), AppQuestion{app.ID, "a"})
	require.NoError(t, err)
	require.Len(t, g.set, 1, "known")
	apps.forgetAll()
	_, err = apps.Of(t.Context(), AppQuestion{app.ID, "a"})
	require.NoError(t, err)
	require.Len(t, g.set, 2)
}

// TestChangedLimitsAreTold checks that a dropped app is told with its old settings if those were
// limits, and that only so many are.
func TestChangedLimitsAreTold(t *testing.T) {
	t.Parallel()
	parts := servicetest.New(t, servicetest.Options{})
	limited, err := parts.Store.PutSettings(t.Context(), "a", store.AppSettings{Rate: 1}, 0)
	require.NoError(t, err)
	free, err := parts.Store.PutSettings(t.Context(), "b", store.AppSettings{}, 0)
	require.NoError(t, err)
	apps := newApps(Options{Store: parts.Store, SetLimits: new(settings).Set})
	apps.changed = make(chan *App, 1)
	for range 2 {
		_, err = apps.Of(t.Context(), AppQuestion{limited.ID, "a"})
		require.NoError(t, err)
		_, err = apps.Of(t.Context(), AppQuestion{free.ID, "b"})
		require.NoError(t, err)
		apps.forget(free.ID, limited.ID)
	}
	require.Nil(t, apps.Known(limited.ID))
	told := <-apps.Changed()
	require.Equal(t, "a", told.Name)
	require.Equal(t, limit.Settings{Rate: 1}, told.Limits)
	require.Empty(t, apps.Changed(), "there was no room for the second")
}

type settings struct{ set []limit.Settings }

func (s *settings) Set(_ string, l limit.Settings) { s.set = append(s.set, l) }

// signingApp is a store of one app with a signing key.
type signingApp struct{ Store }

func (signingApp) AppsByID(context.Context, []int64) ([]store.App, error) {
	return []store.App{{ID: 1, Name: "a"}}, nil
}

func (signingApp) SigningKeys(context.Context, string) ([]store.SigningKey, error) {
	return []store.SigningKey{{Kind: "hmac"}}, nil
}

// lostKey counts the secrets that it is asked for, and cannot decrypt any.
type lostKey struct{ asked int }

func (k *lostKey) Open(timer.Sealed, encryption.Binding) (encryption.Secret, error) {
	k.asked++
	return encryption.Secret{}, errors.New("no such key")
}

// TestUnreadableSigningKeysAreTriedAgain checks that the metric of secrets, which counts attempts to
// decrypt, goes on while calls are refused.
func TestUnreadableSigningKeysAreTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := new(lostKey)
		apps := newApps(Options{
			Store: signingApp{}, Opener: keys, SetLimits: new(settings).Set, Logger: zerolog.Nop(),
		})
		for minute := 1; minute <= 3; minute++ {
			for range 2 {
				a, err := apps.Of(t.Context(), AppQuestion{1, "a"})
				require.NoError(t, err)
				require.ErrorContains(t, a.SignError, "no such key")
				require.Equal(t, minute, keys.asked)
			}
			time.Sleep(retrySigning)
		}
	})
}
