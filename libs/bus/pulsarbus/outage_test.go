package pulsarbus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/testenv"
)

const patience = 60 * time.Second

// inbox keeps the received messages by payload.
type inbox struct {
	mu   sync.Mutex
	seen map[string]int
	most int // the largest batch
}

func (i *inbox) handle(ctx context.Context, batch []bus.Message) []error {
	for _, m := range batch {
		i.note(ctx, m)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.most = max(i.most, len(batch))
	return nil
}

func (i *inbox) note(_ context.Context, m bus.Message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.seen == nil {
		i.seen = make(map[string]int)
	}
	i.seen[string(m.Payload)]++
}

func (i *inbox) has(payload string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen[payload] > 0
}

func (i *inbox) awaits(t *testing.T, payload string) {
	t.Helper()
	require.Eventually(
		t,
		func() bool { return i.has(payload) },
		patience,
		10*time.Millisecond,
		payload,
	)
}

func text(s string) bus.Message { return bus.Message{Payload: []byte(s)} }

var executors = bus.Subscription{
	Topic:       bus.TasksNormal,
	Name:        bus.SubExecutors,
	Concurrency: 1,
	MaxBatch:    100,
	Prefetch:    10,
	DeadLetter:  bus.TasksDead,
}

func TestBrokerUnavailableAtStart(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	require.NoError(t, b.Open(t).Setup(t.Context(), bus.Topics(2)))
	late := b.Open(t)
	b.proxy(late).Cut()

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, late.Publish(ctx, bus.TasksNormal, text("lost")), context.DeadlineExceeded)
	var got inbox
	_, err := late.Subscribe(ctx, executors, got.handle)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Error(t, late.Ping(ctx))

	published := make(chan error, 1)
	go func() { published <- late.Publish(t.Context(), bus.TasksNormal, text("kept")) }()
	time.AfterFunc(time.Second, b.proxy(late).Restore)
	_, err = late.Subscribe(t.Context(), executors, got.handle)
	require.NoError(t, err)
	require.NoError(t, <-published)
	got.awaits(t, "kept")
	require.Eventually(
		t,
		func() bool { return late.Ping(t.Context()) == nil },
		patience,
		10*time.Millisecond,
	)
}

// TestCloseWhileTheBrokerHangs checks that a process ends soon, however many partitions it publishes
// to.
func TestCloseWhileTheBrokerHangs(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	hung := b.Open(t)
	require.NoError(t, hung.Setup(t.Context(), bus.Topics(32)))
	var got inbox
	_, err := hung.Subscribe(t.Context(), executors, got.handle)
	require.NoError(t, err)
	require.NoError(t, hung.Publish(t.Context(), bus.TasksNormal, text("a"), text("b")))
	got.awaits(t, "b")
	release := b.proxy(hung).Hold()
	defer release()
	closed := make(chan error, 1)
	go func() { closed <- hung.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "the bus waits for each partition")
	}
}

func TestConnectionLost(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	p, victim := b.Open(t), b.Open(t)
	require.NoError(t, p.Setup(t.Context(), bus.Topics(2)))
	var tasks, changes inbox
	_, err := victim.Subscribe(t.Context(), executors, tasks.handle)
	require.NoError(t, err)
	_, err = victim.Broadcast(t.Context(), bus.TimersChanged, changes.note)
	require.NoError(t, err)
	require.NoError(t, victim.Publish(t.Context(), bus.TasksNormal, text("before")))
	tasks.awaits(t, "before")

	b.proxy(victim).Cut()
	published := make(chan error, 1)
	go func() { published <- victim.Publish(t.Context(), bus.TasksNormal, text("during, by the victim")) }()
	require.NoError(t, p.Publish(t.Context(), bus.TasksNormal, text("during")))
	require.NoError(t, p.Publish(t.Context(), bus.TimersChanged, text("the first change")))
	b.proxy(victim).Restore()
	require.NoError(t, <-published)
	tasks.awaits(t, "during")
	tasks.awaits(t, "during, by the victim")
	changes.awaits(t, "the first change")
}

// TestRepeatedMessagesAreDropped: a publisher that repeats its messages while the broker is unavailable
// leaves one copy, not one per attempt.
func TestRepeatedMessagesAreDropped(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	p, far := b.Open(t), b.Open(t)
	require.NoError(t, p.Setup(t.Context(), bus.Topics(1)))
	var got inbox
	_, err := p.Subscribe(t.Context(), executors, got.handle)
	require.NoError(t, err)
	require.NoError(t, far.Publish(t.Context(), bus.TasksNormal, text("before")))
	b.proxy(far).Cut()
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		require.ErrorIs(
			t,
			far.Publish(ctx, bus.TasksNormal, text("again")),
			context.DeadlineExceeded,
		)
		cancel()
	}
	b.proxy(far).Restore()
	require.NoError(t, far.Publish(t.Context(), bus.TasksNormal, text("again"), text("after")))
	got.awaits(t, "after")
	got.mu.Lock()
	defer got.mu.Unlock()
	require.Equal(t, 2, got.seen["again"])
}

func TestTopicsLost(t *testing.T) {
	t.Parallel()
	place := testenv.Pulsar(t)
	p := open(t, place, place.URL)
	require.NoError(t, p.Setup(t.Context(), bus.Topics(2)))
	var tasks, changes inbox
	_, err := p.Subscribe(t.Context(), executors, tasks.handle)
	require.NoError(t, err)
	_, err = p.Broadcast(t.Context(), bus.TimersChanged, changes.note)
	require.NoError(t, err)
	for _, topic := range []bus.Topic{bus.TasksNormal, bus.TimersChanged} {
		require.NoError(t, p.Publish(t.Context(), topic, text("before")))
	}
	tasks.awaits(t, "before")
	changes.awaits(t, "before")

	admin(t, place, http.MethodDelete, "/persistent/%s/%s/tasks-normal/partitions?force=true")
	admin(t, place, http.MethodDelete, "/persistent/%s/%s/timers-changed?force=true")
	for _, topic := range []bus.Topic{bus.TasksNormal, bus.TimersChanged} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		require.NoError(t, p.Publish(ctx, topic, text("after")))
		cancel()
	}
	tasks.awaits(t, "after")
	changes.awaits(t, "after")
}

func TestSlicesAreNotBatched(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	p := b.Open(t)
	require.NoError(t, p.Setup(t.Context(), bus.Topics(2)))
	s := executors
	s.Topic, s.Name, s.MaxBatch, s.Prefetch = bus.Slices, bus.SubTriggers, 1, 1
	var held [4]inbox
	for i := range held {
		_, err := b.Open(t).
			Subscribe(t.Context(), s, func(ctx context.Context, batch []bus.Message) []error {
				held[i].handle(ctx, batch)
				<-ctx.Done()
				return bus.SameError(len(batch), ctx.Err())
			})
		require.NoError(t, err)
	}
	var msgs []bus.Message
	for i := range 8 { // one being handled and one queued per consumer
		msgs = append(msgs, text(fmt.Sprint(i)))
	}
	require.NoError(t, p.Publish(t.Context(), bus.Slices, msgs...))
	require.Eventually(t, func() bool {
		for i := range held {
			held[i].mu.Lock()
			n := len(held[i].seen)
			held[i].mu.Unlock()
			if n != 1 {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond)
}

func TestSetup(t *testing.T) {
	t.Parallel()
	place := testenv.Pulsar(t)
	p := open(t, place, place.URL)
	require.NoError(t, p.Setup(t.Context(), bus.Topics(2)))
	require.NoError(t, p.Setup(t.Context(), bus.Topics(3)), "more partitions")

	var schema struct{ Type, Data string }
	get(t, place, "/schemas/%s/%s/tasks-high/schema", &schema)
	require.Equal(t, "PROTOBUF_NATIVE", schema.Type)
	require.Contains(t, schema.Data, "carillon.v1.Task")
	var meta struct{ Partitions int }
	get(t, place, "/persistent/%s/%s/tasks-low/partitions", &meta)
	require.Equal(t, 3, meta.Partitions)
	var subs []string
	get(t, place, "/persistent/%s/%s/slices/subscriptions", &subs)
	require.Equal(t, []string{bus.SubTriggers}, subs)
	for topic, days := range map[bus.Topic]int{bus.Outcomes: 1, bus.TasksDead: 7} {
		var retention struct{ RetentionTimeInMinutes int }
		get(t, place, "/persistent/%s/%s/"+string(topic)+"/retention", &retention)
		require.Equal(t, days*24*60, retention.RetentionTimeInMinutes, topic)
		get(t, place, "/persistent/%s/%s/"+string(topic)+"/subscriptions", &subs)
		require.Empty(t, subs, "a subscription that nobody reads would keep all messages")
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(
		t,
		p.Publish(ctx, "no-such-topic", text("x")),
		"topics are not created on use",
	)
}

// TestSetupResumes: the broker answers a dozen requests and then times out once. Starting over each
// time would never finish.
func TestSetupResumes(t *testing.T) {
	t.Parallel()
	place := testenv.Pulsar(t)
	target, err := url.Parse(place.AdminURL)
	require.NoError(t, err)
	through := httputil.NewSingleHostReverseProxy(target)
	var asked atomic.Int64
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%12 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	behind := place
	behind.AdminURL = slow.URL
	p := open(t, behind, place.URL)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, p.Setup(ctx, bus.Topics(2)))
	require.Greater(t, asked.Load(), int64(24), "it was refused several times")
	var subs []string
	get(t, place, "/persistent/%s/%s/slices/subscriptions", &subs)
	require.Equal(t, []string{bus.SubTriggers}, subs)
}

func admin(t *testing.T, place testenv.PulsarNamespace, method, path string) []byte {
	t.Helper()
	url := place.AdminURL + "/admin/v2" + fmt.Sprintf(path, place.Tenant, place.Namespace)
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Less(t, resp.StatusCode, 300, "%s: %s", url, body)
	return body
}

func get(t *testing.T, place testenv.PulsarNamespace, path string, out any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(admin(t, place, http.MethodGet, path), out))
}
