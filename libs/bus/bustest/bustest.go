package bustest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
)

// Broker is the broker of one test. No other test sees its messages.
type Broker interface {
	// Open returns a bus for one more process. It is closed when the test ends.
	Open(t *testing.T) bus.Bus
	// Kill ends a bus of Open as SIGKILL or a cut connection would. Nothing that it does afterwards
	// reaches the broker, and the broker notices at once. Kill does not wait for handlers.
	Kill(b bus.Bus)
}

const (
	patience = 30 * time.Second // limit for what must happen
	tick     = 10 * time.Millisecond
	quiet    = 700 * time.Millisecond // observation time for what must not happen
)

// Run runs the suite. open returns a fresh broker for each test.
func Run(t *testing.T, open func(t *testing.T) Broker) {
	tests := []struct {
		name string
		run  func(t *testing.T, b Broker)
	}{
		{"B1 before the consumer", storedBeforeConsumer},
		{"B1 each subscription", deliveredToEachSubscription},
		{"B1 consumers die", redeliveredWhenConsumersDie},
		{"B1 handlers fail at random", redeliveredWhenHandlersFail},
		{"B2 not confirmed", unconfirmedIsReported},
		{"B3 one of many", sharedIsDivided},
		{"B4 redelivered", errorIsRedelivered},
		{"B4 part of a batch", partOfBatchIsRedelivered},
		{"B4 dead letter", permanentIsDeadLetter},
		{"B4 dropped", permanentIsDropped},
		{"B5 panic", panicIsRedelivered},
		{"B6 bounded", bounded},
		{"B6 batches fill", batchesFill},
		{"B7 close", closeReturnsMessages},
		{"B7 kill", killReturnsMessages},
		{"B8 broadcast", broadcastReachesAll},
		{"B9 set-up", setupIsIdempotent},
		{"B10 content", contentIsUnchanged},
		{"closed", closedReturnsErrClosed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

// work is the partitioned topic of the suite; bus.Slices is not partitioned.
const work = bus.TasksNormal

// listeners is a subscription of bus.TasksDead, as operators may create.
const listeners = "listeners"

func specs() []bus.TopicSpec {
	return []bus.TopicSpec{
		{Topic: work, Partitions: 2, Subscriptions: []string{bus.SubExecutors}},
		{Topic: bus.Slices, Subscriptions: []string{bus.SubTriggers}},
		{Topic: bus.TasksDead, Subscriptions: []string{listeners}},
	}
}

// process opens a bus and runs Setup on it.
func process(t *testing.T, b Broker) bus.Bus {
	t.Helper()
	p := b.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, p.Setup(ctx, specs()))
	return p
}

func onWork() bus.Subscription {
	return bus.Subscription{
		Topic:       work,
		Name:        bus.SubExecutors,
		Concurrency: 2,
		MaxBatch:    10,
		Prefetch:    20,
		DeadLetter:  bus.TasksDead,
	}
}

func onSlices() bus.Subscription {
	return bus.Subscription{
		Topic:       bus.Slices,
		Name:        bus.SubTriggers,
		Concurrency: 1,
		MaxBatch:    1,
		Prefetch:    1,
		DeadLetter:  bus.TasksDead,
	}
}

func subscribe(t *testing.T, p bus.Bus, s bus.Subscription, h bus.Handler) bus.Consumer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := p.Subscribe(ctx, s, h)
	require.NoError(t, err)
	return c
}

// publish publishes n messages whose payloads count up from first, with up to each messages per
// call.
func publish(t *testing.T, p bus.Bus, topic bus.Topic, first, n, each int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := 0; i < n; i += each {
		var msgs []bus.Message
		for j := i; j < min(i+each, n); j++ {
			msgs = append(msgs, bus.Message{Payload: id(first + j)})
		}
		require.NoError(t, p.Publish(ctx, topic, msgs...))
	}
}

func id(i int) []byte { return fmt.Appendf(nil, "message %06d", i) }

// record counts the messages that handlers received.
type record struct {
	mu   sync.Mutex
	seen map[string][]time.Time // arrival times by payload
	most int                    // largest batch
}

func (r *record) note(batch []bus.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = make(map[string][]time.Time)
	}
	for _, m := range batch {
		r.seen[string(m.Payload)] = append(r.seen[string(m.Payload)], time.Now())
	}
	r.most = max(r.most, len(batch))
}

// handle records and acknowledges messages.
func (r *record) handle(_ context.Context, batch []bus.Message) []error {
	r.note(batch)
	return nil
}

func (r *record) distinct() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

func (r *record) largest() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// deliveries returns the total number of deliveries.
func (r *record) deliveries() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, at := range r.seen {
		n += len(at)
	}
	return n
}

func (r *record) times(payload []byte) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Time(nil), r.seen[string(payload)]...)
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, patience, tick, what)
}

// reaches waits until r has received n different messages.
func (r *record) reaches(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d different messages", n), func() bool { return r.distinct() >= n })
}

// drained waits until a subscription has no unacknowledged messages.
func drained(t *testing.T, p bus.Bus, topic bus.Topic, name string) {
	t.Helper()
	eventually(t, "a backlog of 0 of "+string(topic), func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		n, err := p.Backlog(ctx, topic, name)
		return err == nil && n == 0
	})
}

// stuck returns a handler that records its messages, and then holds them until its context ends.
func stuck(r *record) bus.Handler {
	return func(ctx context.Context, batch []bus.Message) []error {
		r.note(batch)
		<-ctx.Done()
		return bus.SameError(len(batch), ctx.Err())
	}
}
