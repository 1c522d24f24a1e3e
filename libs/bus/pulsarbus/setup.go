package pulsarbus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Setup implements bus.Admin. It creates tenant, namespace, topics with partitions, subscriptions,
// retention and schemas. Every step may run twice or concurrently with another process.
//
// If the broker is unavailable, Setup waits until ctx ends. A Setup that did not finish is resumed
// by the next: a slow broker does not get the same requests again. That matters when a whole
// deployment starts at once.
//
// The namespace neither creates topics on use nor deletes unused ones. A topic created on use would
// have no subscriptions and lose its messages.
func (b *Bus) Setup(ctx context.Context, specs []bus.TopicSpec) error {
	wait := minRetry
	for {
		err := b.TrySetup(ctx, specs)
		if timer.CodeOf(err) != timer.CodeUnavailable { // success, or repeating cannot help
			return err
		}
		b.log.Warn().Err(err).Msg("bus is not set up yet")
		if pause(ctx, b.ctx, wait) != nil {
			return err
		}
		wait = min(2*wait, maxRetry)
	}
}

// TrySetup is one attempt of Setup, for callers that repeat it and report its errors themselves. An
// error of CodeUnavailable may pass; the next attempt goes on where this one ended.
func (b *Bus) TrySetup(ctx context.Context, specs []bus.TopicSpec) error {
	if b.isClosed() {
		return bus.ErrClosed
	}
	if err := b.setup(ctx, specs); err != nil {
		what := "setting up Pulsar at " + b.rest.hosts
		if code := status(err); code >= 400 && code < 500 && code != http.StatusNotFound &&
			code != http.StatusTooManyRequests && code != http.StatusPreconditionFailed {
			return fmt.Errorf("%s: %w", what, err)
		}
		return timer.Unavailable(what, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range specs {
		b.specs[s.Topic] = s
	}
	clear(b.incompleteSetup)
	select {
	case <-b.prepared:
	default:
		close(b.prepared) // once, as b.mu is held
	}
	return nil
}

// restore recreates a lost topic. It does nothing if this bus had no Setup.
func (b *Bus) restore(topic bus.Topic) error {
	b.mu.Lock()
	spec, ok := b.specs[topic]
	b.mu.Unlock()
	if !ok {
		return nil
	}
	b.log.Warn().Str(logging.Topic, string(topic)).Msg("topic lost, recreating it")
	ctx, cancel := context.WithTimeout(b.ctx, restTimeout)
	defer cancel()
	if err := b.setupNamespace(ctx); err != nil {
		return err
	}
	return b.setupTopic(ctx, spec)
}

func (b *Bus) setup(ctx context.Context, specs []bus.TopicSpec) error {
	if err := b.setupNamespace(ctx); err != nil {
		return err
	}
	for _, s := range specs {
		b.mu.Lock()
		made := b.incompleteSetup[s.Topic]
		b.mu.Unlock()
		if made {
			continue
		}
		if err := b.setupTopic(ctx, s); err != nil {
			return fmt.Errorf("topic %s: %w", s.Topic, err)
		}
		b.mu.Lock()
		b.incompleteSetup[s.Topic] = true
		b.mu.Unlock()
	}
	return nil
}

func (b *Bus) setupNamespace(ctx context.Context) error {
	tenant := "/tenants/" + url.PathEscape(b.config.Tenant)
	ns := "/namespaces/" + url.PathEscape(
		b.config.Tenant,
	) + "/" + url.PathEscape(
		b.config.Namespace,
	)
	// Most brokers show tenants only to a superuser. If the namespace exists, the tenant is not
	// requested.
	var policies struct{}
	if err := b.rest.do(ctx, http.MethodGet, ns, nil, &policies); err != nil {
		if status(err) != http.StatusNotFound {
			return err
		}
		var clusters []string
		if err := b.rest.do(ctx, http.MethodGet, "/clusters", nil, &clusters); err != nil {
			return err
		}
		allowed := map[string]any{"allowedClusters": clusters, "adminRoles": []string{}}
		if err := b.rest.create(ctx, tenant, allowed); err != nil {
			return err
		}
		if err := b.rest.create(ctx, ns, map[string]any{}); err != nil {
			return err
		}
	}
	return errors.Join(
		b.rest.do(
			ctx,
			http.MethodPost,
			ns+"/autoTopicCreation",
			map[string]any{"allowAutoTopicCreation": false},
			nil,
		),
		b.rest.do(ctx, http.MethodPost, ns+"/inactiveTopicPolicies", map[string]any{
			"deleteWhileInactive": false, "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
			"maxInactiveDurationSeconds": 24 * 60 * 60,
		}, nil),
	)
}

func (b *Bus) path(topic bus.Topic) string {
	return fmt.Sprintf(
		"/persistent/%s/%s/%s",
		url.PathEscape(
			b.config.Tenant,
		),
		url.PathEscape(b.config.Namespace),
		url.PathEscape(string(topic)),
	)
}

// setupTopic creates a topic. It adds partitions if some are missing, and never removes any.
func (b *Bus) setupTopic(ctx context.Context, s bus.TopicSpec) error {
	path := b.path(s.Topic)
	if s.Partitions == 0 {
		if err := b.rest.create(ctx, path, nil); err != nil {
			return err
		}
	} else {
		if err := b.rest.create(ctx, path+"/partitions", s.Partitions); err != nil {
			return err
		}
		have, err := b.partitions(ctx, s.Topic)
		if err != nil {
			return err
		}
		if have < s.Partitions {
			err := b.rest.do(ctx, http.MethodPost, path+"/partitions", s.Partitions, nil)
			// another process added the partitions
			if err != nil && status(err) != http.StatusConflict {
				return err
			}
		}
	}
	for _, name := range s.Subscriptions {
		if err := b.setupSubscription(ctx, path+"/subscription/"+url.PathEscape(name)); err != nil {
			return err
		}
	}
	if s.Retention > 0 {
		retention := map[string]any{
			"retentionTimeInMinutes": int(max(1, s.Retention/time.Minute)), "retentionSizeInMB": -1,
		}
		if err := b.rest.do(ctx, http.MethodPost, path+"/retention", retention, nil); err != nil {
			return err
		}
	}
	return b.setupSchema(ctx, s)
}

// busyTries and busyWait limit the wait for a subscription that another process is creating.
// Services that start together meet here, and without the wait each would restart its whole set-up.
const (
	busyTries = 30
	busyWait  = 100 * time.Millisecond
)

// setupSubscription creates a subscription at the earliest message.
func (b *Bus) setupSubscription(ctx context.Context, path string) error {
	earliest := map[string]any{"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
	for try := 1; ; try++ {
		err := b.rest.create(ctx, path, earliest)
		if status(err) != http.StatusPreconditionFailed || try == busyTries {
			return err
		}
		if pause(ctx, b.ctx, busyWait) != nil {
			return err
		}
	}
}

// setupSchema registers the schema of the topic. If the broker finds it incompatible, that is only
// logged: the build checks for breaking changes.
func (b *Bus) setupSchema(ctx context.Context, s bus.TopicSpec) error {
	if s.Schema == nil {
		return nil
	}
	info := pulsar.NewProtoNativeSchemaWithMessage(dynamicpb.NewMessage(s.Schema), nil).
		GetSchemaInfo()
	path := "/schemas" + strings.TrimPrefix(b.path(s.Topic), "/persistent") + "/schema"
	var have struct{ Type, Data string }
	err := b.rest.do(ctx, http.MethodGet, path, nil, &have)
	if err == nil && have.Data == info.Schema {
		return nil
	}
	err = b.rest.do(ctx, http.MethodPost, path, map[string]any{
		"type": "PROTOBUF_NATIVE", "schema": info.Schema, "properties": map[string]string{},
	}, nil)
	if code := status(err); code == http.StatusConflict || code == http.StatusUnprocessableEntity {
		b.log.Error().Err(err).Str(logging.Topic, string(s.Topic)).Msg("schema is not registered")
		return nil
	}
	return err
}

func (b *Bus) partitions(ctx context.Context, topic bus.Topic) (int, error) {
	var meta struct{ Partitions int }
	err := b.rest.do(ctx, http.MethodGet, b.path(topic)+"/partitions", nil, &meta)
	return meta.Partitions, err
}

// Backlog implements bus.Admin. Pulsar counts a batch as one message, even if a part is
// acknowledged. So the number is a lower bound, but 0 is exact.
func (b *Bus) Backlog(ctx context.Context, topic bus.Topic, subscription string) (int64, error) {
	if b.isClosed() {
		return 0, bus.ErrClosed
	}
	n, err := b.partitions(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("asking for the backlog of %s: %w", topic, err)
	}
	path := b.path(topic) + "/stats?getPreciseBacklog=true"
	if n > 0 {
		path = b.path(topic) + "/partitioned-stats?perPartition=false&getPreciseBacklog=true"
	}
	var stats topicStats
	if err := b.rest.do(ctx, http.MethodGet, path, nil, &stats); err != nil {
		return 0, fmt.Errorf("asking for the backlog of %s: %w", topic, err)
	}
	s, ok := stats.Subscriptions[subscription]
	if !ok {
		return 0, fmt.Errorf("topic %s has no subscription %s", topic, subscription)
	}
	return s.MsgBacklog, nil
}
