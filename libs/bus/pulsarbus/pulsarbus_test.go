package pulsarbus_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/bustest"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/testenv"
)

func TestMain(m *testing.M) {
	// A producer whose topic was deleted leaks the goroutine that reconnects it. If nobody closes
	// the producer, the loop that starts this goroutine leaks too. It may be in the middle of an
	// attempt when the tests end. A closed producer with a send timeout ends its goroutine when the
	// timeout has passed.
	goleak.VerifyTestMain(
		m,
		goleak.IgnoreAnyFunction(
			"github.com/apache/pulsar-client-go/pulsar.(*partitionProducer).runEventsLoop.func1",
		),
		goleak.IgnoreAnyFunction(
			"github.com/apache/pulsar-client-go/pulsar.(*partitionProducer).failTimeoutMessages",
		),
	)
}

// broker is a namespace. Each of its buses connects through a proxy of its own.
type broker struct {
	place testenv.PulsarNamespace

	mu      sync.Mutex
	proxies map[bus.Bus]*testenv.Proxy
}

func newBroker(t *testing.T) *broker { return newBrokerAt(testenv.Pulsar(t)) }

func newBrokerAt(place testenv.PulsarNamespace) *broker {
	return &broker{place: place, proxies: make(map[bus.Bus]*testenv.Proxy)}
}

func (b *broker) Open(t *testing.T) bus.Bus {
	p := newProxy(t, "127.0.0.1:0", b.place.URL)
	k := open(t, b.place, "pulsar://"+p.Addr())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.proxies[k] = p
	return k
}

// newProxy starts a proxy at an address to the broker of a URL.
func newProxy(t *testing.T, addr, brokerURL string) *testenv.Proxy {
	_, at, _ := strings.Cut(brokerURL, "://")
	return testenv.NewProxy(t, addr, at)
}

func (b *broker) Kill(k bus.Bus) { b.proxy(k).Cut() }

func (b *broker) proxy(k bus.Bus) *testenv.Proxy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proxies[k]
}

func open(t *testing.T, place testenv.PulsarNamespace, url string) *pulsarbus.Bus {
	log := zerolog.Nop()
	if testing.Verbose() {
		log = zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true}).
			With().
			Str("test", t.Name()).
			Logger().
			Level(zerolog.DebugLevel)
	}
	k, err := pulsarbus.New(pulsarbus.Options{
		Config: pulsarbus.Config{
			URL:       url,
			AdminURL:  place.AdminURL,
			Tenant:    place.Tenant,
			Namespace: place.Namespace,
		},
		Log: log,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	return k
}

func TestContract(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Broker { return newBroker(t) })
}
