package pulsarbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/oauth2"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/certfile"
)

// Defaults of Config.
const (
	DefaultTenant    = "carillon"
	DefaultNamespace = "main"
)

// Timeouts and intervals of requests to the broker.
const (
	connectTimeout   = 5 * time.Second
	operationTimeout = 5 * time.Second        // of one request on a connection
	closeTimeout     = 10 * time.Second       // for unconfirmed messages when the bus closes
	minRetry         = 100 * time.Millisecond // between attempts to reach the broker
	maxRetry         = 2 * time.Second
)

// Config locates Pulsar.
type Config struct {
	URL       string // pulsar://host:port or pulsar+ssl://host:port, more hosts after commas
	AdminURL  string // http(s)://host:port, more hosts after commas; for Setup and Backlog
	Tenant    string // default DefaultTenant
	Namespace string // default DefaultNamespace
	// Tokens are for both URLs; nil means none. New does not ask for one.
	Tokens oauth2.TokenSource
	// TLS has the authorities and the certificate for URLs with TLS. Without a token, the
	// certificate is the login. nil means the system's authorities and no certificate.
	TLS *certfile.Client
}

// Options configure a bus.
type Options struct {
	Config
	Log        zerolog.Logger
	Registerer prometheus.Registerer // for the client's own metrics; nil means not exposed
	// SetupFirst lets subscriptions and producers wait for a first setup. Between the creation of a
	// namespace and the end of its setup, a broker would create a topic on use, without partitions.
	SetupFirst bool
}

// Bus is one process's connection to Pulsar. It is safe for concurrent use.
type Bus struct {
	client pulsar.Client
	rest   *rest
	config Config
	log    zerolog.Logger

	connection *connectionError

	prepared   chan struct{} // closed once subscriptions and producers may be created
	setupFirst bool          // Options.SetupFirst

	ctx    context.Context // ends when the bus closes
	cancel context.CancelFunc
	wg     sync.WaitGroup // all goroutines of the bus

	mu              sync.Mutex
	closed          bool
	inFlight        sync.WaitGroup // running calls of Publish
	producers       map[bus.Topic]*producer
	consumers       map[bus.Consumer]struct{}
	specs           map[bus.Topic]bus.TopicSpec // specs of Setup, to recreate lost topics
	incompleteSetup map[bus.Topic]bool          // topics created by a Setup that has not finished
	// pinging is closed when the running ping ends; nil if none runs.
	pinging chan struct{}
	pingErr error // of the last ping
}

var _ bus.Bus = (*Bus)(nil)

// New returns a bus. It fails only for invalid options, not if the broker is unavailable.
func New(o Options) (*Bus, error) {
	if o.URL == "" || o.AdminURL == "" {
		return nil, errors.New("pulsarbus needs a URL and an admin URL")
	}
	if o.Tenant == "" {
		o.Tenant = DefaultTenant
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Registerer == nil {
		// The default of the client is a global registry.
		o.Registerer = prometheus.NewRegistry()
	}
	admin, err := newREST(&o.Config)
	if err != nil {
		return nil, err
	}
	connection := new(connectionError)
	options := pulsar.ClientOptions{
		ConnectionTimeout:  connectTimeout,
		OperationTimeout:   operationTimeout,
		Logger:             connection.listen(newLogger(o.Log)),
		MetricsRegisterer:  o.Registerer,
		MetricsCardinality: pulsar.MetricsCardinalityTopic,
	}
	o.login(&options)
	client, err := pulsar.NewClient(options)
	if err != nil {
		return nil, fmt.Errorf("creating a Pulsar client for %s: %w", o.URL, err)
	}
	b := &Bus{
		client: client, rest: admin, config: o.Config, log: o.Log, connection: connection,
		producers: make(map[bus.Topic]*producer), consumers: make(map[bus.Consumer]struct{}),
		specs: make(map[bus.Topic]bus.TopicSpec), incompleteSetup: make(map[bus.Topic]bool),
		prepared: make(chan struct{}), setupFirst: o.SetupFirst,
	}
	if !o.SetupFirst {
		close(b.prepared)
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b, nil
}

// Ping implements bus.Admin: it looks up a topic at a broker. Concurrent pings share one request. If
// there is no connection, the error says why, and names the broker.
func (b *Bus) Ping(ctx context.Context) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return bus.ErrClosed
	}
	if b.pinging == nil {
		b.pinging = make(chan struct{})
		b.wg.Go(b.ping)
	}
	done := b.pinging
	b.mu.Unlock()
	select {
	case <-done:
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.pingErr
	case <-ctx.Done():
		return fmt.Errorf("pinging the broker: %w", b.connection.orCause(ctx.Err()))
	}
}

func (b *Bus) ping() {
	_, err := b.client.TopicPartitions(b.full(bus.Slices))
	if isNotFound(err) {
		err = nil // the broker answered
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		if !isAnswer(err) {
			err = b.connection.orCause(err)
		}
		err = fmt.Errorf("pinging the broker: %w", err)
	}
	b.pingErr = err
	close(b.pinging)
	b.pinging = nil
}

// Close implements bus.Bus. Consumers return unacknowledged messages. Then running calls of Publish
// get closeTimeout for their confirmations.
func (b *Bus) Close() error {
	b.mu.Lock()
	b.closed = true
	consumers := make([]bus.Consumer, 0, len(b.consumers))
	for c := range b.consumers {
		consumers = append(consumers, c)
	}
	b.mu.Unlock()
	errs := make([]error, len(consumers))
	var closing sync.WaitGroup
	for i, c := range consumers {
		closing.Go(func() { errs[i] = c.Close() })
	}
	closing.Wait()
	flushed := make(chan struct{})
	go func() {
		b.inFlight.Wait()
		close(flushed)
	}()
	select {
	case <-flushed:
	case <-time.After(closeTimeout):
	}
	b.cancel()
	<-flushed // every Publish has returned
	b.wg.Wait()
	leave(b.client.Close)
	b.rest.client.CloseIdleConnections()
	return errors.Join(errs...)
}

// leave takes leave of the broker by a call of the client, which it leaves to itself after the time
// of one request. While the broker hangs, the client waits so long for each partition, one after the
// other. The broker forgets the process when its connections end.
func leave(end func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end()
	}()
	select {
	case <-ended:
	case <-time.After(operationTimeout):
	}
}

// full returns the full name of a topic.
func (b *Bus) full(t bus.Topic) string {
	return fmt.Sprintf("persistent://%s/%s/%s", b.config.Tenant, b.config.Namespace, t)
}

// attach registers a consumer, so that Close closes it.
func (b *Bus) attach(c bus.Consumer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return bus.ErrClosed
	}
	b.consumers[c] = struct{}{}
	return nil
}

func (b *Bus) detach(c bus.Consumer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.consumers, c)
}

// start runs f in a goroutine that Close waits for.
func (b *Bus) start(f func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return bus.ErrClosed
	}
	b.wg.Go(f)
	return nil
}

func (b *Bus) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}
