package pulsarbus_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// external is a publisher and a topic outside Carillon.
type external struct {
	*pulsarbus.ExternalPublisher

	place testenv.PulsarNamespace
	url   string
	topic string
}

func newExternal(t *testing.T, place testenv.PulsarNamespace, url string) *external {
	t.Helper()
	p, err := pulsarbus.NewExternalPublisher(pulsarbus.Config{}, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return &external{
		ExternalPublisher: p,
		place:             place,
		url:               url,
		topic: fmt.Sprintf(
			"persistent://%s/%s/of-a-user",
			place.Tenant,
			place.Namespace,
		),
	}
}

// send publishes within a time, like an attempt.
func (e *external) send(t *testing.T, within time.Duration, key, payload string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return e.Publish(ctx, pulsarbus.ExternalMessage{
		ServiceURL: e.url, Topic: e.topic, Key: key, Payload: []byte(payload),
	})
}

// read returns the messages in the topic up to one with the payload last.
func (e *external) read(t *testing.T, last string) (all []pulsar.Message) {
	t.Helper()
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: e.place.URL})
	require.NoError(t, err)
	defer client.Close()
	r, err := client.CreateReader(pulsar.ReaderOptions{
		Topic: e.topic, StartMessageID: pulsar.EarliestMessageID(),
	})
	require.NoError(t, err)
	defer r.Close()
	for {
		m, err := r.Next(t.Context())
		require.NoError(t, err)
		if all = append(all, m); string(m.Payload()) == last {
			return all
		}
	}
}

func payloads(all []pulsar.Message) (out []string) {
	for _, m := range all {
		out = append(out, string(m.Payload()))
	}
	return out
}

// TestMessagesOfFailedAttemptsAreNotSentLater checks that a message whose attempt has failed for want
// of a connection is not in the topic once the broker is back. One whose attempt still waits is
// there once.
func TestMessagesOfFailedAttemptsAreNotSentLater(t *testing.T) {
	t.Parallel()
	place := testenv.Pulsar(t)
	p := newProxy(t, "127.0.0.1:0", place.URL)
	e := newExternal(t, place, "pulsar://"+p.Addr())
	require.NoError(t, e.send(t, patience, "", "before"))
	p.Cut()
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if err := e.send(t, patience, "", "waits"); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		require.Error(t, e.send(t, 1500*time.Millisecond, "", "failed"))
	}
	p.Restore()
	waiting.Wait()
	require.NoError(t, e.send(t, patience, "", "after"))
	require.Equal(t, []string{"before", "waits", "after"}, payloads(e.read(t, "after")))
}

// TestRefusedMessageBlocksNoOther checks that the message which the broker refuses fails with the
// reason, and that others of its topic are delivered.
func TestRefusedMessageBlocksNoOther(t *testing.T) {
	t.Parallel()
	place := testenv.Pulsar(t)
	e := newExternal(t, place, place.URL)
	require.NoError(t, e.send(t, patience, "", "before"))
	e.limitSize(t, 1000)
	large := strings.Repeat("x", 5000)
	var err error
	require.Eventually(t, func() bool {
		err = e.send(t, patience, "", large)
		return err != nil
	}, patience, 10*time.Millisecond, "the limit applies some time after it is set")
	require.True(t, bus.IsRefused(err), "%v", err)
	require.False(t, bus.IsPermanent(err))
	require.ErrorContains(t, err, "the broker refused the message: NotAllowedError")

	var all sync.WaitGroup
	all.Go(func() {
		if err := e.send(t, patience, "", large); !bus.IsRefused(err) {
			t.Errorf("%v", err)
		}
	})
	for i := range 20 {
		all.Go(func() {
			if err := e.send(t, patience, "", fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.NoError(t, e.send(t, patience, "", "after"))
}

func (e *external) limitSize(t *testing.T, bytes int) {
	t.Helper()
	e.admin(t, http.MethodPost,
		strings.Replace(e.topic, "://", "/", 1)+"/maxMessageSize", fmt.Sprint(bytes))
}

// TestKeysAreNotBatchedTogether checks that messages of different keys are not in one batch, which
// goes to one consumer, whatever their keys.
func TestKeysAreNotBatchedTogether(t *testing.T) {
	t.Parallel()
	place := testenv.Pulsar(t)
	e := newExternal(t, place, place.URL)
	require.NoError(t, e.send(t, patience, "", "first"))
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := e.send(t, patience, fmt.Sprint(i), "one of many"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.NoError(t, e.send(t, patience, "", "last"))
	keys := map[[2]int64]map[string]bool{}
	for _, m := range e.read(t, "last") {
		entry := [2]int64{m.ID().LedgerID(), m.ID().EntryID()}
		if keys[entry] == nil {
			keys[entry] = map[string]bool{}
		}
		keys[entry][m.Key()] = true
	}
	for _, k := range keys {
		require.Len(t, k, 1)
	}
}

// TestAnswersOfTheBroker checks which errors are answers of a broker that can be reached.
func TestAnswersOfTheBroker(t *testing.T) {
	t.Parallel()
	place := testenv.Pulsar(t)
	e := newExternal(t, place, place.URL)
	e.topic = fmt.Sprintf("persistent://%s/no-such-namespace/x", place.Tenant)
	err := e.send(t, patience, "", "x")
	require.True(t, bus.IsRefused(err), "%v", err)
	require.False(t, bus.IsPermanent(err), "somebody may create it")

	e = newExternal(t, place, place.URL)
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: place.URL})
	require.NoError(t, err)
	defer client.Close()
	alone, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: e.topic, ProducerAccessMode: pulsar.ProducerAccessModeExclusive,
	})
	require.NoError(t, err)
	defer alone.Close()
	err = e.send(t, patience, "", "x")
	require.True(t, bus.IsRefused(err), "%v", err)
	require.False(t, bus.IsPermanent(err))
}

// TestTopicsThatAreGone checks that the first message after a topic was deleted or terminated
// already fails with the broker's answer: a missing topic may be there again, a terminated one takes
// no more messages.
func TestTopicsThatAreGone(t *testing.T) {
	t.Parallel()
	for name, permanent := range map[string]bool{"deleted": false, "terminated": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := testenv.Pulsar(t)
			e := newExternal(t, place, place.URL)
			topic := strings.Replace(e.topic, "://", "/", 1)
			e.admin(t, http.MethodPost, "namespaces/"+place.Tenant+"/"+place.Namespace+
				"/autoTopicCreation", `{"allowAutoTopicCreation": false}`)
			e.admin(t, http.MethodPut, topic, "")
			require.NoError(t, e.send(t, patience, "", "before"))
			if permanent {
				e.admin(t, http.MethodPost, topic+"/terminate", "")
			} else {
				e.admin(t, http.MethodDelete, topic+"?force=true", "")
			}
			for range 3 {
				// The client may never confirm a message that it sends while the broker closes its
				// producer: such an attempt has no answer in time, as the next one has.
				var err error
				require.Eventually(t, func() bool {
					err = e.send(t, 2*time.Second, "", "after")
					return !errors.Is(err, context.DeadlineExceeded)
				}, patience, time.Millisecond)
				require.Error(t, err)
				require.Equal(t, permanent, bus.IsPermanent(err), "%v", err)
				require.Equal(t, !permanent, bus.IsRefused(err), "%v", err)
			}
		})
	}
}

// admin calls the admin API.
func (e *external) admin(t *testing.T, method, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(
		t.Context(), method, e.place.AdminURL+"/admin/v2/"+path, strings.NewReader(body),
	)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Less(t, resp.StatusCode, 300, path)
}
