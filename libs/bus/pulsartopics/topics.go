package pulsartopics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin/auth"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/admin/config"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/rest"
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
	"golang.org/x/oauth2"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsaradmin"
	"github.com/carillon-timer/carillon/libs/certfile"
)

// Config locates the topics.
type Config struct {
	AdminURL  string // http(s)://host:port, more hosts after commas
	Tenant    string
	Namespace string
	Tokens    oauth2.TokenSource // nil means none
	// TLS has the authorities and the certificate; nil means the system's and none.
	TLS *certfile.Client
}

// Topics gives access to the topics of one deployment. It is safe for concurrent use.
type Topics struct {
	admin     admin.Client
	transport *pulsaradmin.Transport
	config    Config
	specs     []bus.TopicSpec
}

// answerTimeout limits the wait for one response of the broker. The context of the caller limits
// the whole call.
const answerTimeout = 20 * time.Second

// New returns access to the topics. It does not connect.
func New(c Config) (*Topics, error) {
	transport, err := pulsaradmin.NewTransport(pulsaradmin.Options{
		URL: c.AdminURL, Tokens: c.Tokens, TLS: c.TLS, AnswerTimeout: answerTimeout,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the URL
	}
	a, err := admin.NewPulsarClientWithAuthProvider(
		&config.Config{WebServiceURL: transport.Base()},
		auth.NewDefaultProvider(transport),
	)
	if err != nil {
		return nil, fmt.Errorf("using the admin URL: %w", err)
	}
	return &Topics{
		admin:     a,
		transport: transport,
		config:    c,
		specs:     bus.Topics(bus.DefaultTaskPartitions),
	}, nil
}

// Close closes idle connections.
func (t *Topics) Close() { t.transport.CloseIdleConnections() }

// ErrNoTopic means that the deployment has no topic of that name.
var ErrNoTopic = errors.New("no such topic")

// ErrNoSubscription means that a topic has no subscription of that name.
var ErrNoSubscription = errors.New("no such subscription")

// Topic describes one topic.
type Topic struct {
	Name          bus.Topic
	Message       string // full name of its message type
	Schema        string // kind of the registered schema; empty means none
	Missing       bool   // Setup creates it, but it does not exist
	Partitions    int    // 0 means not partitioned
	InPerSecond   float64
	OutPerSecond  float64
	Bytes         int64
	Publishers    int
	Subscriptions []Subscription
}

// Subscription describes one subscription. Pulsar counts a partly acknowledged batch as one
// message. So Backlog is a lower bound, but 0 is exact.
type Subscription struct {
	Name      string
	Type      string // Shared, …; empty before the first consumer
	Backlog   int64  // unacknowledged messages
	Unacked   int64  // unacknowledged messages that consumers hold
	Consumers int
	// RedeliverPerSecond above a few means that handlers fail.
	RedeliverPerSecond float64
	OutPerSecond       float64
	// LastAck is zero if there was none or Pulsar does not know it. For the partitioned topics of
	// tasks, whose subscriptions are Shared, its statistics have 0 while messages are acknowledged.
	LastAck time.Time
}

// List describes every topic that Setup creates.
func (t *Topics) List(ctx context.Context) ([]Topic, error) {
	out := make([]Topic, 0, len(t.specs))
	for _, s := range t.specs {
		d, err := t.Describe(ctx, s.Topic)
		if err != nil {
			return nil, err
		}
		out = append(out, *d)
	}
	return out, nil
}

// Describe describes one topic. A missing topic is not an error: Missing is set.
func (t *Topics) Describe(ctx context.Context, topic bus.Topic) (*Topic, error) {
	spec, name, err := t.find(topic)
	if err != nil {
		return nil, err
	}
	d := &Topic{Name: topic, Message: string(spec.Schema.FullName())}
	meta, err := t.admin.Topics().GetMetadataWithContext(ctx, name)
	switch {
	case isNotFound(err) && !isNamespaceNotFound(err):
		d.Missing = true
		return d, nil
	case err != nil:
		return nil, t.reading(topic, err)
	}
	d.Partitions = meta.Partitions
	var subs map[string]utils.SubscriptionStats
	if d.Partitions > 0 {
		s, err := t.admin.Topics().
			GetPartitionedStatsWithOptionWithContext(ctx, name, false, precise)
		if err != nil {
			return nil, fmt.Errorf("reading the statistics of topic %s: %w", topic, err)
		}
		d.InPerSecond, d.OutPerSecond, d.Bytes, d.Publishers = s.MsgRateIn, s.MsgRateOut, s.StorageSize, len(
			s.Publishers,
		)
		subs = s.Subscriptions
	} else {
		s, err := t.admin.Topics().GetStatsWithOptionWithContext(ctx, name, precise)
		switch {
		case isNotFound(err):
			d.Missing = true
			return d, nil
		case err != nil:
			return nil, fmt.Errorf("reading the statistics of topic %s: %w", topic, err)
		}
		d.InPerSecond, d.OutPerSecond, d.Bytes, d.Publishers = s.MsgRateIn, s.MsgRateOut, s.StorageSize, len(
			s.Publishers,
		)
		subs = s.Subscriptions
	}
	for _, sub := range slices.Sorted(maps.Keys(subs)) {
		s := subs[sub]
		d.Subscriptions = append(d.Subscriptions, Subscription{
			Name:               sub,
			Type:               s.SubType,
			Backlog:            s.MsgBacklog,
			Unacked:            s.UnAckedMessages,
			Consumers:          len(s.Consumers),
			RedeliverPerSecond: s.MsgRateRedeliver,
			OutPerSecond:       s.MsgRateOut,
			LastAck:            instant(s.LastAckedTimestamp),
		})
	}
	info, err := t.admin.Schemas().(schemas).GetSchemaInfoWithContext(ctx, name.String())
	switch {
	case isNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("reading the schema of topic %s: %w", topic, err)
	default:
		d.Schema = info.Type
	}
	return d, nil
}

// schemas has a method of the client's type that its declared interface lacks.
type schemas interface {
	GetSchemaInfoWithContext(ctx context.Context, topic string) (*utils.SchemaInfo, error)
}

// precise requests exact backlogs instead of estimates.
var precise = utils.GetStatsOptions{GetPreciseBacklog: true}

// find returns a topic's spec and full name.
func (t *Topics) find(topic bus.Topic) (bus.TopicSpec, utils.TopicName, error) {
	i := slices.IndexFunc(t.specs, func(s bus.TopicSpec) bool { return s.Topic == topic })
	if i < 0 {
		return bus.TopicSpec{}, utils.TopicName{}, fmt.Errorf(
			"%w: %q (there are %v)",
			ErrNoTopic,
			topic,
			t.Names(),
		)
	}
	name, err := utils.GetTopicName(
		fmt.Sprintf("persistent://%s/%s/%s", t.config.Tenant, t.config.Namespace, topic),
	)
	if err != nil {
		return bus.TopicSpec{}, utils.TopicName{}, fmt.Errorf("naming topic %s: %w", topic, err)
	}
	return t.specs[i], *name, nil
}

// Names returns the names of all topics that Setup creates.
func (t *Topics) Names() []bus.Topic {
	names := make([]bus.Topic, len(t.specs))
	for i, s := range t.specs {
		names[i] = s.Topic
	}
	return names
}

// parts returns the topics that hold messages: the partitions, or the topic itself.
func (t *Topics) parts(
	ctx context.Context,
	topic bus.Topic,
	name utils.TopicName,
) ([]utils.TopicName, error) {
	meta, err := t.admin.Topics().GetMetadataWithContext(ctx, name)
	if err != nil {
		return nil, t.reading(topic, err)
	}
	if meta.Partitions == 0 {
		return []utils.TopicName{name}, nil
	}
	out := make([]utils.TopicName, meta.Partitions)
	for i := range out {
		p, err := name.GetPartition(i)
		if err != nil {
			return nil, fmt.Errorf("naming partition %d of %s: %w", i, topic, err)
		}
		out[i] = *p
	}
	return out, nil
}

func isNotFound(err error) bool {
	e, ok := errors.AsType[rest.Error](err)
	return ok && e.Code == http.StatusNotFound
}

func isNamespaceNotFound(err error) bool {
	e, ok := errors.AsType[rest.Error](err)
	return ok && e.Code == http.StatusNotFound &&
		(strings.HasPrefix(e.Reason, "Namespace") || strings.HasPrefix(e.Reason, "Tenant"))
}

// reading adds to the error of a read which settings may be wrong.
func (t *Topics) reading(topic bus.Topic, err error) error {
	err = fmt.Errorf("reading topic %s: %w", topic, err)
	if isNamespaceNotFound(err) {
		return fmt.Errorf(
			"%w: Pulsar has no namespace %s/%s: run carillon setup, or correct pulsar-tenant and pulsar-namespace",
			err,
			t.config.Tenant,
			t.config.Namespace,
		)
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf(
			"%w: what answers at %s is not Pulsar's admin API: correct pulsar-admin-url",
			err, t.config.AdminURL,
		)
	}
	return err
}

// isUnconfirmed reports whether the entry was being written. The broker counts such an entry in a
// ledger's statistics, and answers a request for it with this internal error.
func isUnconfirmed(err error) bool {
	e, ok := errors.AsType[rest.Error](err)
	return ok && e.Code == http.StatusInternalServerError &&
		strings.Contains(e.Reason, "LastConfirmedEntry is ")
}

func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// byTime orders messages by publication.
func byTime(a, b Message) int {
	return cmp.Or(a.Published.Compare(b.Published), cmp.Compare(a.ID, b.ID))
}
