package pulsartopics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/oauth2"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/bus/pulsartopics"
	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/testenv"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// deployment is a namespace with all topics.
type deployment struct {
	place  testenv.PulsarNamespace
	bus    *pulsarbus.Bus
	topics *pulsartopics.Topics
}

func setup(t *testing.T) *deployment {
	t.Helper()
	return setupAt(t, testenv.Pulsar(t), nil)
}

func setupAt(t *testing.T, p testenv.PulsarNamespace, client *certfile.Client) *deployment {
	t.Helper()
	b, err := pulsarbus.New(pulsarbus.Options{Log: zerolog.Nop(), Config: pulsarbus.Config{
		URL: p.URL, AdminURL: p.AdminURL, Tenant: p.Tenant, Namespace: p.Namespace, TLS: client,
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	require.NoError(t, b.Setup(t.Context(), bus.Topics(2)))
	topics, err := pulsartopics.New(
		pulsartopics.Config{
			AdminURL: p.AdminURL, Tenant: p.Tenant, Namespace: p.Namespace, TLS: client,
		},
	)
	require.NoError(t, err)
	t.Cleanup(topics.Close)
	return &deployment{place: p, bus: b, topics: topics}
}

// TestTLS shows topics through a port that demands a certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	p, files := testenv.PulsarTLS(t)
	client, err := certfile.LoadClient("pulsar-tls", files.Files, zerolog.Nop())
	require.NoError(t, err)
	topics, err := setupAt(t, p, client).topics.List(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, topics)
}

// TestLogin checks what the test server does not: the admin API gets the token.
func TestLogin(t *testing.T) {
	t.Parallel()
	got := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		http.Error(w, "{}", http.StatusForbidden)
	}))
	defer server.Close()
	topics, err := pulsartopics.New(pulsartopics.Config{
		AdminURL: server.URL, Tenant: "a", Namespace: "b",
		Tokens: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "hunter2"}),
	})
	require.NoError(t, err)
	defer topics.Close()
	_, err = topics.List(t.Context())
	require.Error(t, err)
	require.Equal(t, "Bearer hunter2", <-got)
}

// TestLatestWhileAnEntryIsWritten checks what a test cannot time on a real broker: the last entry of
// a ledger is counted and not confirmed yet.
func TestLatestWhileAnEntryIsWritten(t *testing.T) {
	t.Parallel()
	for reason, wrong := range map[string]bool{
		"ManagedLedgerException: LastConfirmedEntry is 7:0 when reading entry 1": false,
		"something else": true,
	} {
		read := make(chan string, 10)
		server := httptest.NewServer(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				switch at := r.URL.Path; {
				case strings.HasSuffix(at, "/partitions"):
					fmt.Fprint(w, `{"partitions":0}`)
				case strings.HasSuffix(at, "/internalStats"):
					fmt.Fprint(w, `{"currentLedgerEntries":2,"ledgers":[{"ledgerId":7}]}`)
				case strings.HasSuffix(at, "/ledger/7/entry/1"):
					read <- "1"
					w.WriteHeader(http.StatusInternalServerError)
					fmt.Fprintf(w, `{"reason":%q}`, reason)
				default:
					read <- "0"
					w.WriteHeader(http.StatusNotFound)
				}
			}))
		defer server.Close()
		topics, err := pulsartopics.New(pulsartopics.Config{
			AdminURL: server.URL, Tenant: "a", Namespace: "b",
		})
		require.NoError(t, err)
		defer topics.Close()
		found, err := topics.PeekLatest(t.Context(), bus.TasksDead, 10)
		require.Equal(t, "1", <-read)
		if wrong {
			require.ErrorContains(t, err, reason)
			continue
		}
		require.NoError(t, err)
		require.Empty(t, found)
		require.Equal(t, "0", <-read, "it goes on with the entry before")
	}
}

// TestListSaysWhatIsMissing: the other topics are shown beside a lost one.
func TestListSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"reason":"Topic persistent://a/b/slices not found"}`: "",
		`{"reason":"Namespace not found"}`:                     "Pulsar has no namespace a/b: run carillon setup, or correct pulsar-tenant",
		`{"reason":"Tenant not found"}`:                        "Pulsar has no namespace a/b: run carillon setup, or correct pulsar-tenant",
		"<html>sign in":                                        "is not Pulsar's admin API: correct pulsar-admin-url",
	} {
		server := httptest.NewServer(http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) {
				if strings.HasPrefix(answer, "{") {
					w.WriteHeader(http.StatusNotFound)
				}
				fmt.Fprint(w, answer)
			}))
		defer server.Close()
		topics, err := pulsartopics.New(pulsartopics.Config{
			AdminURL: server.URL, Tenant: "a", Namespace: "b",
		})
		require.NoError(t, err)
		defer topics.Close()
		list, err := topics.List(t.Context())
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Len(t, list, len(topics.Names()))
		for _, l := range list {
			require.True(t, l.Missing, l.Name)
		}
	}
}

func (d *deployment) publish(t *testing.T, topic bus.Topic, ms ...proto.Message) {
	t.Helper()
	msgs := make([]bus.Message, len(ms))
	for i, m := range ms {
		payload, err := proto.Marshal(m)
		require.NoError(t, err)
		msgs[i] = bus.Message{
			Payload:    payload,
			Properties: map[string]string{bus.PropApp: fmt.Sprint("app-", i)},
		}
	}
	require.NoError(t, d.bus.Publish(t.Context(), topic, msgs...))
}

func tasks(n int) []proto.Message {
	out := make([]proto.Message, n)
	for i := range out {
		out[i] = &carillonv1.Task{TimerId: int64(i + 1), DueMs: 1_800_000_000_000}
	}
	return out
}

// consume acknowledges all messages of a subscription until the returned function is called or the
// test ends.
func (d *deployment) consume(
	t *testing.T,
	topic bus.Topic,
	name string,
	done chan<- bus.Message,
) bus.Consumer {
	t.Helper()
	c, err := d.bus.Subscribe(
		t.Context(),
		bus.Subscription{Topic: topic, Name: name, Concurrency: 1, MaxBatch: 100, Prefetch: 100},
		func(_ context.Context, batch []bus.Message) []error {
			for _, m := range batch {
				done <- m
			}
			return nil
		},
	)
	require.NoError(t, err)
	return c
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTopics(t *testing.T) { //nolint:tparallel // the parts look at one deployment, in turn
	t.Parallel()
	d := setup(t)

	t.Run("list", func(t *testing.T) {
		list, err := d.topics.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, len(d.topics.Names()))
		for _, l := range list {
			require.False(t, l.Missing, l.Name)
			require.Equal(t, "PROTOBUF_NATIVE", l.Schema, l.Name)
			switch l.Name {
			case bus.TasksHigh, bus.TasksNormal, bus.TasksLow:
				require.Equal(t, 2, l.Partitions)
				require.Equal(t, bus.SubExecutors, l.Subscriptions[0].Name)
				require.Equal(t, "carillon.v1.Task", l.Message)
			case bus.Outcomes, bus.TimersChanged, bus.TasksDead, bus.Audit:
				require.Empty(t, l.Subscriptions)
			case bus.Slices:
				require.Len(t, l.Subscriptions, 1)
			}
		}
		_, err = d.topics.Describe(t.Context(), "nonsense")
		require.ErrorIs(t, err, pulsartopics.ErrNoTopic)
	})

	t.Run("waiting", func(t *testing.T) {
		none, err := d.topics.PeekBacklog(t.Context(), bus.TasksNormal, bus.SubExecutors, 10)
		require.NoError(t, err)
		require.Empty(t, none)
		const sent = 23
		for _, m := range tasks(sent) { // in batches of one or more, over two partitions
			d.publish(t, bus.TasksNormal, m)
		}
		for _, n := range []int{1, 7, sent, 100} {
			got, err := d.topics.PeekBacklog(t.Context(), bus.TasksNormal, bus.SubExecutors, n)
			require.NoError(t, err)
			require.Len(t, got, min(n, sent))
			require.NoError(t, got[0].Err)
			require.Contains(t, fmt.Sprint(got[0].Decoded), "1800000000000")
			require.WithinDuration(t, time.Now(), got[0].Published, time.Minute)
		}
		seen := make(map[string]bool)
		all, err := d.topics.PeekBacklog(t.Context(), bus.TasksNormal, bus.SubExecutors, 100)
		require.NoError(t, err)
		for _, m := range all {
			seen[string(m.Raw)] = true
		}
		require.Len(t, seen, sent, "each once")
		topic, err := d.topics.Describe(t.Context(), bus.TasksNormal)
		require.NoError(t, err)
		require.Positive(t, topic.Subscriptions[0].Backlog, "peeking acknowledges nothing")
		_, err = d.topics.PeekBacklog(t.Context(), bus.TasksNormal, "nobody", 1)
		require.ErrorIs(t, err, pulsartopics.ErrNoSubscription)
		topic, err = d.topics.Describe(t.Context(), bus.TasksNormal)
		require.NoError(t, err)
		require.Len(t, topic.Subscriptions, 1, "peeking creates none")
	})

	t.Run("latest", func(t *testing.T) {
		const sent = 30
		for i := range sent {
			d.publish(t, bus.Outcomes, &carillonv1.Outcome{TimerId: int64(i), Kind: "delivered"})
		}
		got, err := d.topics.PeekLatest(t.Context(), bus.Outcomes, 5)
		require.NoError(t, err)
		require.Len(t, got, 5)
		for i, m := range got {
			var o carillonv1.Outcome
			require.NoError(t, proto.Unmarshal(m.Raw, &o))
			require.EqualValues(t, sent-5+i, o.GetTimerId())
		}
		none, err := d.topics.PeekLatest(t.Context(), bus.TimersChanged, 5)
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

// TestDeadLettersAreKept checks that dead letters, which no subscription waits for, are kept.
func TestDeadLettersAreKept(t *testing.T) {
	t.Parallel()
	d := setup(t)
	letter := &carillonv1.DeadTask{
		App:        "shop",
		Reason:     "attempts",
		Attempts:   3,
		StatusCode: 500,
		Task:       &carillonv1.Task{TimerId: 7},
	}
	d.publish(t, bus.TasksDead, letter)
	require.NoError(
		t,
		d.bus.Publish(t.Context(), bus.TasksDead, bus.Message{Payload: []byte{0xff}}),
	)
	got, err := d.topics.PeekLatest(t.Context(), bus.TasksDead, 10)
	require.NoError(t, err)
	require.Len(t, got, 2)
	var have carillonv1.DeadTask
	require.NoError(t, proto.Unmarshal(got[0].Raw, &have))
	require.True(t, proto.Equal(letter, &have))
	require.ErrorContains(t, got[1].Err, "not a carillon.v1.DeadTask")
}

func TestReset(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const sent = 10
	d.publish(t, bus.Slices, &carillonv1.Slice{Minute: 1})
	d.publish(t, bus.TasksLow, tasks(sent)...)
	backlog := func() int64 {
		n, err := d.bus.Backlog(t.Context(), bus.TasksLow, bus.SubExecutors)
		require.NoError(t, err)
		return n
	}
	require.NoError(
		t,
		d.topics.Reset(
			t.Context(),
			bus.TasksLow,
			bus.SubExecutors,
			pulsartopics.Position{Latest: true},
		),
	)
	require.Zero(t, backlog())
	require.NoError(
		t,
		d.topics.Reset(
			t.Context(),
			bus.TasksLow,
			bus.SubExecutors,
			pulsartopics.Position{Earliest: true},
		),
	)
	require.Positive(t, backlog())
	require.NoError(
		t,
		d.topics.Reset(
			t.Context(),
			bus.TasksLow,
			bus.SubExecutors,
			pulsartopics.Position{At: time.Now().Add(time.Minute)},
		),
	)
	require.NoError(
		t,
		d.topics.Reset(
			t.Context(),
			bus.TasksLow,
			bus.SubExecutors,
			pulsartopics.Position{At: time.Now().Add(-time.Hour)},
		),
	)
	done := make(chan bus.Message, 10*sent)
	c := d.consume(t, bus.TasksLow, bus.SubExecutors, done)
	defer func() { require.NoError(t, c.Close()) }()
	for range sent {
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			require.Fail(t, "what was skipped is delivered after going back")
		}
	}
	require.ErrorContains(
		t,
		d.topics.Reset(t.Context(), bus.TasksLow, "nobody", pulsartopics.Position{Latest: true}),
		"nobody",
	)
}
