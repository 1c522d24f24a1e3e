package callback_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

type publisher struct {
	got callback.TopicMessage
	n   int
	err error
}

func (p *publisher) PublishTo(ctx context.Context, m callback.TopicMessage) error {
	p.got = m
	p.n++
	if errors.Is(p.err, context.DeadlineExceeded) {
		<-ctx.Done()
		return ctx.Err()
	}
	return p.err
}

// fixed resolves every name to one address.
type fixed string

func (f fixed) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(string(f))}, nil
}

func pulsarRequest() *callback.Request {
	r := requestTo("")
	r.App = "shop"
	r.Target = timer.Target{
		Kind:      timer.KindPulsar,
		Body:      "{{fire.id}}",
		Templates: true,
		Headers:   map[string][]string{"X-A": {"1", "2"}},
		Pulsar:    &timer.PulsarTopic{Topic: "persistent://shop/events/due"},
	}
	return r
}

// topics opens topics of the deployment's own Pulsar.
func topics(t testing.TB, prefixes ...string) *egress.Topics {
	t.Helper()
	open, err := egress.NewTopics(nil, prefixes)
	require.NoError(t, err)
	return open
}

func TestPulsar(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t)
	p := &publisher{}
	c, err := callback.NewPulsar(
		callback.PulsarOptions{
			Publisher:    p,
			Secrets:      ring,
			OwnNamespace: "carillon/main",
			Topics:       topics(t, "shop/events", "carillon/main"),
		},
	)
	require.NoError(t, err)
	r := pulsarRequest()
	r.Target.SecretHeaders = map[string]timer.Sealed{
		"X-Secret": ring.Seal(encryption.NewSecret("hunter2"), callback.SecretBinding("shop")),
	}
	require.Equal(t, callback.Result{}, c.Call(t.Context(), r))
	require.Equal(t, "persistent://shop/events/due", p.got.Topic)
	require.Equal(t, "42", p.got.Key)
	require.Equal(t, "42-1767225600123", string(p.got.Payload))
	require.Equal(t, time.UnixMilli(1767225600123).UTC(), p.got.EventTime)
	for name, want := range map[string]string{
		"x-a": "1", "x-secret": "hunter2", "carillon-fire-id": "42-1767225600123", "carillon-timer-id": "42", "carillon-attempt": "2",
		"carillon-due": "2026-01-01T00:00:00.123Z", "carillon-cause": "schedule", "idempotency-key": "42-1767225600123",
	} {
		require.Equal(t, want, p.got.Properties[name], name)
	}
	require.NotEmpty(t, p.got.Properties["traceparent"])
	r.Target.Pulsar.Key = "mine"
	c.Call(t.Context(), r)
	require.Equal(t, "mine", p.got.Key)
	r.Labels = map[string]string{"team": "till"}
	r.Target.Pulsar.Key = "{{label.team}} {{attempt}}"
	c.Call(t.Context(), r)
	require.Equal(t, "till 2", p.got.Key)
	r.Target.Pulsar.Key = "{{label.gone}}"
	c.Call(t.Context(), r)
	require.Equal(t, "42", p.got.Key, "an empty one is the timer's id")
	for _, key := range []string{"{{nope}}", strings.Repeat("{{due}}", 10)} {
		r.Target.Pulsar.Key = key
		require.Contains(t, c.Call(t.Context(), r).Error, "pulsar.key")
	}
	r.Target.Pulsar.Key = ""

	for _, topic := range []string{"persistent://carillon/main/tasks-high", "non-persistent://a/b/c", "a", "persistent://a/b/c/d", ""} {
		r.Target.Pulsar.Topic = topic
		got := c.Call(t.Context(), r)
		require.Equal(t, callback.Reject, got.Class, topic)
		require.Equal(t, timer.FailureInvalid, got.Failure)
	}
	for _, topic := range []string{"persistent://shop/other/due", "persistent://pulsar/system/x"} {
		r.Target.Pulsar.Topic = topic
		got := c.Call(t.Context(), r)
		require.Equal(t, callback.Reject, got.Class, topic)
		require.Equal(t, timer.FailureRefused, got.Failure)
	}
	require.Equal(t, 4, p.n)
	_, err = callback.NewPulsar(callback.PulsarOptions{})
	require.ErrorContains(t, err, "publisher")
}

func TestPulsarFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		err     error
		class   callback.Class
		failure timer.Failure
	}{
		{"permanent", bus.Permanent(errors.New("no permission")), callback.Reject, timer.FailureStatus},
		{"refused", bus.Refused(errors.New("no such topic")), callback.Retry, timer.FailureStatus},
		{"away", errors.New("connection refused"), callback.Retry, timer.FailureConnect},
		{"late", context.DeadlineExceeded, callback.Retry, timer.FailureTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := callback.NewPulsar(
				callback.PulsarOptions{
					Publisher: &publisher{err: tt.err},
					Topics:    topics(t, "shop/events"),
				},
			)
			require.NoError(t, err)
			r := pulsarRequest()
			r.Timeout = 50 * time.Millisecond
			got := c.Call(t.Context(), r)
			require.Equal(t, tt.class, got.Class)
			require.Equal(t, tt.failure, got.Failure)
			require.NotEmpty(t, got.Error)
		})
	}
}

func TestAPulsarOfATimersOwnIsGuarded(t *testing.T) {
	t.Parallel()
	for address, refused := range map[string]bool{"10.0.0.1": true, "127.0.0.1": true, "169.254.169.254": true, "8.8.8.8": false} {
		p := &publisher{}
		open, err := egress.NewTopics(
			[]string{"pulsar+ssl://broker.example:6651"},
			[]string{"shop/events"},
		)
		require.NoError(t, err)
		c, err := callback.NewPulsar(callback.PulsarOptions{
			Publisher:    p,
			Resolver:     fixed(address),
			Topics:       open,
			OwnNamespace: "carillon/main",
			Egress: egress.NewPolicy(
				egress.Options{Ports: egress.Ports{{First: 6650, Last: 6651}}},
			),
		})
		require.NoError(t, err)
		r := pulsarRequest()
		r.Target.URL = "pulsar+ssl://broker.example:6651"
		got := c.Call(t.Context(), r)
		if refused {
			require.Equal(t, timer.FailureRefused, got.Failure, address)
			require.Zero(t, p.n)
			continue
		}
		require.Equal(t, callback.Success, got.Class, got.Error)
		require.Equal(t, r.Target.URL, p.got.ServiceURL)

		// The URL may be another name of the deployment's own Pulsar.
		r.Target.Pulsar.Topic = "persistent://carillon/main/tasks-high"
		require.Equal(t, callback.Reject, c.Call(t.Context(), r).Class)
		r.Target.Pulsar.Topic = "persistent://shop/events/__change_events"
		require.Equal(t, callback.Reject, c.Call(t.Context(), r).Class)
		r = pulsarRequest()
		r.Target.URL = "pulsar+ssl://unlisted.example:6651"
		got = c.Call(t.Context(), r)
		require.Equal(t, callback.Reject, got.Class)
		require.Equal(t, timer.FailureRefused, got.Failure)
		require.Contains(t, got.Error, "callback-pulsar-urls")
		require.Equal(t, 1, p.n)
	}
}
