package pulsarbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/carillon-timer/carillon/libs/bus"
)

// fakes creates and counts fake clients and producers.
type fakes struct {
	mu      sync.Mutex
	options []pulsar.ClientOptions
	made    []pulsar.ProducerOptions
	open    atomic.Int64 // open producers
	clients atomic.Int64 // open clients
	slow    chan struct{}
	panics  atomic.Bool
	closed  atomic.Bool  // the next message finds its producer closed
	closing atomic.Int64 // how long the close of a producer takes
	holds   atomic.Bool  // messages wait for their confirmation
	held    map[string][]func()
}

// confirm confirms the held messages of a payload, and returns how many there are.
func (f *fakes) confirm(payload string) int {
	f.mu.Lock()
	all := f.held[payload]
	delete(f.held, payload)
	f.mu.Unlock()
	for _, done := range all {
		done()
	}
	return len(all)
}

func (f *fakes) dial(o pulsar.ClientOptions) (pulsar.Client, error) {
	f.mu.Lock()
	f.options = append(f.options, o)
	f.mu.Unlock()
	f.clients.Add(1)
	return &fakeClient{fakes: f}, nil
}

type fakeClient struct {
	pulsar.Client
	*fakes
}

func (c *fakeClient) CreateProducer(o pulsar.ProducerOptions) (pulsar.Producer, error) {
	<-c.slow
	if c.panics.Load() {
		panic("creating")
	}
	c.mu.Lock()
	c.made = append(c.made, o)
	c.mu.Unlock()
	c.open.Add(1)
	return &fakeProducer{fakes: c.fakes}, nil
}

func (c *fakeClient) Close() { c.clients.Add(-1) }

type fakeProducer struct {
	pulsar.Producer
	*fakes
}

func (p *fakeProducer) SendAsync(
	_ context.Context,
	m *pulsar.ProducerMessage,
	done func(pulsar.MessageID, *pulsar.ProducerMessage, error),
) {
	if p.panics.Load() {
		panic("sending")
	}
	if p.closed.CompareAndSwap(true, false) {
		done(nil, m, pulsar.ErrProducerClosed)
		return
	}
	if p.holds.Load() {
		p.mu.Lock()
		defer p.mu.Unlock()
		text := string(m.Payload)
		p.held[text] = append(p.held[text], func() { done(nil, m, nil) })
		return
	}
	done(nil, m, nil)
}

func (p *fakeProducer) Close() {
	time.Sleep(time.Duration(p.closing.Load()))
	p.open.Add(-1)
	if p.panics.Load() {
		panic("closing")
	}
}

func newFakes(t *testing.T) (*fakes, *ExternalPublisher) {
	t.Helper()
	f := &fakes{slow: make(chan struct{}), held: make(map[string][]func())}
	external, err := newExternalPublisher(
		Config{
			URL:    "pulsar://own:6650",
			Tokens: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "hunter2"}),
		},
		zerolog.Nop(),
		f.dial,
	)
	require.NoError(t, err)
	return f, external
}

func TestConcurrentFirstCallsCreateOneProducer(t *testing.T) {
	t.Parallel()
	f, external := newFakes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	require.ErrorIs(t, external.Publish(ctx, ExternalMessage{Topic: "a"}), context.DeadlineExceeded)
	cancel()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := external.Publish(t.Context(), ExternalMessage{Topic: "a"}); err != nil {
				t.Error(err)
			}
		})
	}
	close(f.slow)
	all.Wait()
	require.Len(t, f.made, 1, "a producer created too late is kept for the next call")
	require.Equal(
		t,
		externalSendTimeout,
		f.made[0].SendTimeout,
		"a message that timed out is not published hours later",
	)
	require.Equal(t, pulsar.MetricsCardinalityNone, f.options[0].MetricsCardinality)
	require.NotNil(t, f.options[0].Authentication)
	require.NoError(
		t,
		external.Publish(
			t.Context(),
			ExternalMessage{ServiceURL: "pulsar://other:6650", Topic: "a"},
		),
	)
	require.Nil(t, f.options[1].Authentication, "no other Pulsar is shown the token")
	external.Close()
	require.Zero(t, f.open.Load())
	require.Zero(t, f.clients.Load())
	require.ErrorIs(t, external.Publish(t.Context(), ExternalMessage{Topic: "b"}), bus.ErrClosed)
}

// TestCloseLeavesABrokerThatHangs has many producers whose broker answers nothing.
func TestCloseLeavesABrokerThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, external := newFakes(t)
		close(f.slow)
		for n := range 100 {
			m := ExternalMessage{Topic: fmt.Sprint(n)}
			require.NoError(t, external.Publish(t.Context(), m))
		}
		f.closing.Store(int64(operationTimeout))
		began := time.Now()
		external.Close()
		require.LessOrEqual(t, time.Since(began), operationTimeout)
		time.Sleep(time.Second)
		require.Zero(t, f.open.Load())
		require.Zero(t, f.clients.Load())
	})
}

// TestConnectionsToOtherBrokersSayNothing has a cluster of which one broker cannot be reached. The
// producer is connected to another one, which is slow, and then loses that connection too.
func TestConnectionsToOtherBrokersSayNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, external := newFakes(t)
		defer external.Close()
		close(f.slow)
		publish := func(within time.Duration, payload string) error {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			return external.Publish(ctx, ExternalMessage{Topic: "a", Payload: []byte(payload)})
		}
		require.NoError(t, publish(time.Second, "first"))
		f.holds.Store(true)
		refused := errors.New("refused")
		log := f.options[0].Logger
		producer := log.SubLogger(pulsarlog.Fields{"topic": "a"})
		log.WithError(refused).Warn(logConnectFailed)
		producer.WithFields(pulsarlog.Fields{"epoch": 1}).Info(logProducerConnected)
		log.WithError(refused).Warn(logConnectFailed)

		patient := make(chan error, 1)
		go func() { patient <- publish(time.Minute, "patient") }()
		require.ErrorIs(t, publish(time.Second, "impatient"), context.DeadlineExceeded)
		synctest.Wait()
		require.Equal(t, 1, f.confirm("patient"))
		require.NoError(t, <-patient)
		require.Len(t, f.made, 1, "the producer is kept")

		producer.WithField("cnx", "1").Warn(logProducerLost)
		go func() { patient <- publish(time.Minute, "patient") }()
		require.ErrorIs(t, publish(time.Second, "impatient"), refused)
		synctest.Wait()
		require.Equal(t, 2, f.confirm("patient"), "with a new producer, too")
		require.NoError(t, <-patient)
		require.Len(t, f.made, 2)
	})
}

func TestClientsAreBounded(t *testing.T) {
	t.Parallel()
	f, external := newFakes(t)
	close(f.slow)
	for i := range 2 * maxExternalClients {
		for _, topic := range []string{"a", "b"} {
			require.NoError(
				t,
				external.Publish(
					t.Context(),
					ExternalMessage{ServiceURL: fmt.Sprintf("pulsar://h%d:6650", i), Topic: topic},
				),
			)
		}
	}
	require.Eventually(
		t,
		func() bool { return f.clients.Load() == maxExternalClients && f.open.Load() == 2*maxExternalClients },
		30*time.Second,
		time.Millisecond,
	)
	external.Close()
	require.Zero(t, f.open.Load())
	require.Zero(t, f.clients.Load())
}

func TestClientPanicIsAnError(t *testing.T) {
	t.Parallel()
	f, external := newFakes(t)
	close(f.slow)
	require.NoError(t, external.Publish(t.Context(), ExternalMessage{Topic: "a"}))
	f.panics.Store(true)
	err := external.Publish(t.Context(), ExternalMessage{Topic: "a"})
	require.ErrorContains(t, err, "sending")
	require.True(t, isGone(errors.Unwrap(err)))
	require.ErrorContains(t, external.Publish(t.Context(), ExternalMessage{Topic: "b"}), "creating")
	f.panics.Store(false)
	require.NoError(
		t,
		external.Publish(t.Context(), ExternalMessage{Topic: "a"}),
		"with a new producer",
	)
	require.Len(t, f.made, 2)
	external.Close()
}

// TestClosedProducerIsReplaced checks that a message which finds its producer closed, and so was not
// sent, goes to a new one.
func TestClosedProducerIsReplaced(t *testing.T) {
	t.Parallel()
	f, external := newFakes(t)
	close(f.slow)
	require.NoError(t, external.Publish(t.Context(), ExternalMessage{Topic: "a"}))
	f.closed.Store(true)
	require.NoError(t, external.Publish(t.Context(), ExternalMessage{Topic: "a"}))
	require.Len(t, f.made, 2)
	external.Close()
}

// TestDeniedMessagesAreRefused: somebody may grant the right, or the broker could not read it, so the
// retry policy decides. No retry changes an invalid name or a terminated topic.
func TestDeniedMessagesAreRefused(t *testing.T) {
	t.Parallel()
	for text, permanent := range map[string]bool{
		"server error: AuthorizationError: no policies": false,
		"AuthenticationError: the token has expired":    false,
		"server error: TopicTerminatedError: it was":    true,
		"InvalidTopicName: x":                           true,
	} {
		err := answered(errors.New(text))
		require.Equal(t, permanent, bus.IsPermanent(err), text)
		require.Equal(t, !permanent, bus.IsRefused(err), text)
	}
}
