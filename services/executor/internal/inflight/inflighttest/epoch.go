// Package inflighttest makes what tests of in-flight fires need.
package inflighttest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// opened is a store whose sessions never expire.
type opened struct{ store.Sessions }

func (opened) OpenSession(context.Context, store.Session) error { return nil }
func (opened) RenewSession(context.Context, timer.ID, store.Load) (bool, error) {
	return true, nil
}
func (opened) CloseSession(context.Context, timer.ID) error { return nil }

// Epoch returns an epoch that lasts as long as the test.
func Epoch(t testing.TB) *session.Epoch {
	t.Helper()
	k, err := session.NewHeartbeater(
		session.Options{
			Store: opened{},
			IDs:   timer.NewIDs(time.Now),
			Kind:  store.ExecutorSession,
			Name:  "test",
		},
	)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
	epoch, err := k.Wait(ctx)
	require.NoError(t, err)
	return epoch
}

// NeverSlow tells a set that results are written as fast as calls end.
func NeverSlow() bool { return false }
