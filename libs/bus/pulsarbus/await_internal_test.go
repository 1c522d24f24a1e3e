package pulsarbus

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// pinged is a client whose broker answers lookups with an error.
type pinged struct {
	pulsar.Client
	err error
}

func (p pinged) TopicPartitions(string) ([]string, error) { return nil, p.err }

// TestDeniedAccess ends a call for a wrong login, but not after a setup, which the login allowed.
func TestDeniedAccess(t *testing.T) {
	t.Parallel()
	for setupFirst, want := range map[bool]int{false: 1, true: 3} {
		synctest.Test(t, func(t *testing.T) {
			b := &Bus{log: zerolog.Nop(), prepared: make(chan struct{}), setupFirst: setupFirst}
			close(b.prepared)
			b.ctx, b.cancel = context.WithCancel(t.Context())
			calls := 0
			create := func() (int, error) {
				if calls++; calls == 3 {
					return 7, nil
				}
				return 0, errors.New("server error: AuthorizationError: no policies")
			}
			made, err := await(t.Context(), b, "subscribing to tasks", create, func(int) {})
			if setupFirst {
				require.NoError(t, err)
				require.Equal(t, 7, made)
			} else {
				require.ErrorContains(t, err, "AuthorizationError")
			}
			require.Equal(t, want, calls)
			b.cancel()
			b.wg.Wait()
		})
	}
}

// TestStuckSubscriptionIsReported checks that a subscription which does not succeed is no secret of
// the process while the broker answers, and that an outage is left to those who ping.
func TestStuckSubscriptionIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ping  error
		hangs bool
		unset bool // there was no setup yet
		err   string
		want  string
	}{
		"the broker refuses": {want: `"error":"topic is loading"`},
		"the broker hangs":   {hangs: true, want: `"what":"subscribing to tasks"`},
		"it denies all": {
			ping: errors.New("AuthorizationError"), err: "AuthorizationError", want: "grant the role",
		},
		"it is down":       {ping: errors.New("no connection")},
		"it is not set up": {unset: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log := new(bytes.Buffer)
				b := &Bus{
					client:     pinged{err: c.ping},
					log:        zerolog.New(zerolog.SyncWriter(log)).Level(zerolog.InfoLevel),
					connection: new(connectionError),
					prepared:   make(chan struct{}),
					setupFirst: true,
				}
				if !c.unset {
					close(b.prepared)
				}
				b.ctx, b.cancel = context.WithCancel(t.Context())
				ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
				defer cancel()
				create := func() (int, error) {
					if c.hangs {
						<-ctx.Done()
					}
					return 0, errors.New(cmp.Or(c.err, "topic is loading"))
				}
				_, err := await(ctx, b, "subscribing to tasks", create, func(int) {})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				b.cancel()
				b.wg.Wait()
				lines := strings.Count(log.String(), "\n")
				if c.want == "" {
					require.Zero(t, lines)
					return
				}
				require.Equal(t, 2, lines)
				require.Contains(t, log.String(), c.want)
				require.Contains(t, log.String(), `"waited":"1m0s"`)
			})
		})
	}
}
