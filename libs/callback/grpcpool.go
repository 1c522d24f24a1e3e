package callback

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/carillon-timer/carillon/libs/egress"
)

// maxChannels limits the cached gRPC channels.
const maxChannels = 1024

// maxChannelUsers limits the calls that share a channel. A server limits the streams of a connection,
// commonly to 100, and gRPC lets further calls wait until their time is over.
const maxChannelUsers = 90

// channelKey determines which calls may share a channel. It has the app, so that the slow calls of
// one take no streams from another's.
type channelKey struct {
	app       string
	address   string
	secure    bool
	transport transportKey
	number    int // from 0, as one channel takes only some calls at once
}

// channel is a gRPC channel that closes when it is both evicted and unused.
type channel struct {
	conn *grpc.ClientConn
	// of the last dial, as gRPC keeps only its text; nil after a success
	dialErr atomic.Pointer[error]
	failed  atomic.Bool // a call got no answer, as there is no connection

	mu      sync.Mutex
	users   int
	evicted bool
}

// channels caches gRPC channels.
type channels struct {
	o     *GRPCOptions
	mu    sync.Mutex
	cache *lru.Cache[channelKey, *channel]
}

func newChannels(o *GRPCOptions) (*channels, error) {
	cache, err := lru.NewWithEvict(maxChannels, func(_ channelKey, c *channel) { c.evict() })
	if err != nil {
		return nil, fmt.Errorf("making the cache of channels: %w", err)
	}
	return &channels{o: o, cache: cache}, nil
}

// get returns a channel for use; call release afterwards. It is the first that is not full. So those
// after it, which a peak made, fall idle, and close their connections. A channel that failed to
// connect would refuse calls until its next try, so a new one takes its place: every attempt connects
// if there is no connection, as over HTTP. Calls that come meanwhile wait for the same dial. The
// state alone does not tell: gRPC refuses calls a moment before it says that it failed.
func (cs *channels) get(p *egress.Policy, k channelKey) (*channel, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for ; ; k.number++ {
		c, ok := cs.cache.Get(k)
		if ok && (c.failed.Load() || c.conn.GetState() == connectivity.TransientFailure) {
			cs.cache.Remove(k)
			ok = false
		}
		if !ok {
			var err error
			if c, err = cs.make(p, &k); err != nil {
				return nil, err
			}
			cs.cache.Add(k, c)
		}
		if c.use() {
			return c, nil
		}
	}
}

func (cs *channels) make(p *egress.Policy, k *channelKey) (*channel, error) {
	dial := cs.o.Dial
	dial.Timeout = cs.o.DialTimeout
	dialer, err := egress.NewDialer(p, dial)
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if k.secure {
		config, err := tlsConfig(&cs.o.NetOptions, &k.transport, nil)
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(config)
	}
	c := &channel{}
	c.conn, err = grpc.NewClient(
		"passthrough:///"+k.address,
		grpc.WithTransportCredentials(explained{creds, k.secure}),
		grpc.WithNoProxy(), // behind a proxy nothing checks the address
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				c.dialErr.Store(&err)
				return nil, err
			}
			c.dialErr.Store(nil)
			return conn, nil
		}),
		// These pings are sent during calls.
		grpc.WithKeepaliveParams(
			keepalive.ClientParameters{Time: grpcPingAfter, Timeout: pingTimeout},
		),
		grpc.WithUserAgent(cs.o.UserAgent),
		grpc.WithStatsHandler(responseWatch{}),
		grpc.WithIdleTimeout(cs.o.IdleTimeout),
		grpc.WithDisableServiceConfig(), // it would be fetched from DNS TXT records
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithStaticStreamWindowSize(answerWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		// The timer's policy decides when to try again.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.DefaultConfig, MinConnectTimeout: cs.o.DialTimeout,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return c, nil
}

// use counts a call, unless the channel is full.
func (c *channel) use() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users >= maxChannelUsers {
		return false
	}
	c.users++
	return true
}

func (c *channel) release() {
	c.mu.Lock()
	c.users--
	over := c.evicted && c.users == 0
	c.mu.Unlock()
	if over {
		_ = c.conn.Close()
	}
}

func (c *channel) evict() {
	c.mu.Lock()
	over := !c.evicted && c.users == 0
	c.evicted = true
	c.mu.Unlock()
	if over {
		_ = c.conn.Close()
	}
}

// noAnswer makes the next attempt connect, unless there is a connection: a server that refuses one
// stream, for example because it has too many, has not closed it.
func (c *channel) noAnswer() {
	if c.conn.GetState() != connectivity.Ready {
		c.failed.Store(true)
	}
}

// lastDialErr returns why there is no connection, or nil.
func (c *channel) lastDialErr() error {
	if p := c.dialErr.Load(); p != nil {
		return *p
	}
	return nil
}

// close closes all channels, those in use when their calls end.
func (cs *channels) close() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.cache.Purge()
}
