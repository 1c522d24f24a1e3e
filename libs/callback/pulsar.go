package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TopicMessage is a fire to be published to a topic.
type TopicMessage struct {
	ServiceURL string // pulsar(+ssl)://host:port; empty: the deployment's own
	Topic      string // persistent://tenant/namespace/topic
	Key        string
	Payload    []byte
	Properties map[string]string
	EventTime  time.Time // the due instant
}

// TopicPublisher publishes to topics of any Pulsar. It is safe for concurrent use.
type TopicPublisher interface {
	// PublishTo returns when the broker has confirmed the message, or ctx ends. The caller has just
	// checked the host of ServiceURL against the egress policy. The implementation must dial its
	// connections under that policy too, as far as its client allows. An error marked by
	// bus.Permanent can never pass, for example for want of a permission. One marked by bus.Refused
	// is the answer of the broker.
	PublishTo(ctx context.Context, m TopicMessage) error
}

// PulsarOptions configure a Pulsar caller.
type PulsarOptions struct {
	Publisher TopicPublisher
	Topics    *egress.Topics // where targets may publish; nil: nowhere
	// Egress is the deployment's policy for targets with a URL of their own; nil: the strict
	// default. Topics must allow the URL as well.
	Egress         *egress.Policy
	Resolver       egress.Resolver // nil: the system's
	Secrets        Opener          // nil: targets with secret headers are rejected
	ReservedHeader string          // as in NetOptions
	// OwnNamespace is "tenant/namespace" of Carillon itself, where nothing is published.
	OwnNamespace string
}

// Pulsar calls targets by publishing a message. The headers become properties in lower case.
type Pulsar struct{ o PulsarOptions }

var _ Caller = (*Pulsar)(nil)

// NewPulsar returns a Pulsar caller.
func NewPulsar(o PulsarOptions) (*Pulsar, error) {
	if o.Publisher == nil {
		return nil, errors.New("options of the Pulsar caller: no publisher")
	}
	if o.Egress == nil {
		o.Egress = egress.NewPolicy(egress.Options{})
	}
	return &Pulsar{o}, nil
}

// Call makes one attempt. It returns when r.Timeout has passed or ctx ends.
func (p *Pulsar) Call(ctx context.Context, r *Request) Result {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	callCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	secrets, err := openHeaders(p.o.Secrets, p.o.ReservedHeader, r)
	if err != nil {
		return invalidResult(err)
	}
	m, err := p.message(r, secrets)
	if err != nil {
		return invalidResult(err)
	}
	if err := p.o.Topics.Check(m.ServiceURL, m.Topic); err != nil {
		return redactResult(failedResult(ctx, callCtx, err, timeout), r, secrets)
	}
	if m.ServiceURL != "" {
		if err := p.reachable(callCtx, r, m.ServiceURL); err != nil {
			return redactResult(failedResult(ctx, callCtx, err, timeout), r, secrets)
		}
	}
	if err := p.o.Publisher.PublishTo(callCtx, m); err != nil {
		return redactResult(publishFailed(ctx, callCtx, err, timeout), r, secrets)
	}
	return Result{}
}

// message builds the message of a fire.
func (p *Pulsar) message(r *Request, secrets []secretHeader) (TopicMessage, error) {
	if r.Target.Pulsar == nil {
		return TopicMessage{}, errors.New("pulsar.topic is missing")
	}
	topic := *r.Target.Pulsar
	namespace, ok := namespaceOf(topic.Topic)
	// This holds with a URL too, which may be another name of the same Pulsar.
	if !ok || namespace == p.o.OwnNamespace || systemTopic(topic.Topic) {
		return TopicMessage{}, fmt.Errorf(
			"pulsar.topic %q may not be published to",
			topic.Topic,
		)
	}
	e := newExpander(r)
	body, err := e.body(&r.Target)
	if err != nil {
		return TopicMessage{}, err
	}
	properties := make(map[string]string, len(r.Target.Headers)+len(secrets)+maxOwnHeaders)
	for name, values := range r.Target.Headers {
		if values, err = e.header(name, values); err != nil {
			return TopicMessage{}, err
		}
		if len(values) > 0 {
			// Only a definition older than the check has several values; the first one is sent.
			properties[strings.ToLower(name)] = values[0]
		}
	}
	for _, s := range secrets {
		properties[strings.ToLower(s.name)] = s.value
	}
	var o headerList
	ownHeaders(&o, r, body)
	for i := range o.n {
		properties[strings.ToLower(o.names[i])] = o.values[i]
	}
	key, err := e.text("pulsar.key", topic.Key, payload.Header)
	if err != nil {
		return TopicMessage{}, err
	}
	if err := e.checkSize("pulsar.key", len(key), timer.MaxNameLen); err != nil {
		return TopicMessage{}, err
	}
	if key == "" {
		key = r.Fire.Timer.String()
	}
	return TopicMessage{
		ServiceURL: r.Target.URL,
		Topic:      topic.Topic,
		Key:        key,
		Payload:    []byte(body),
		Properties: properties,
		EventTime:  time.UnixMilli(r.Fire.DueMS).UTC(),
	}, nil
}

// reachable checks the address of a target's own Pulsar.
func (p *Pulsar) reachable(ctx context.Context, r *Request, serviceURL string) error {
	address, _, err := parseAddress(serviceURL, "pulsar", "pulsar+ssl")
	if err != nil {
		return err
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return err
	}
	policy := p.o.Egress
	if r.Egress != nil {
		policy = r.Egress
	}
	_, err = policy.Resolve(ctx, p.o.Resolver, host, uint16(n))
	return err
}

// publishFailed classifies a message that was not confirmed. It may be in the topic nevertheless.
func publishFailed(ctx, callCtx context.Context, err error, timeout time.Duration) Result {
	r := failedResult(ctx, callCtx, err, timeout)
	switch {
	case r.Failure == timer.FailureCanceled:
	case bus.IsPermanent(err):
		r.Class, r.Failure = Reject, timer.FailureStatus
	case bus.IsRefused(err):
		r.Failure = timer.FailureStatus
	case r.Failure == timer.FailureProtocol:
		r.Failure = timer.FailureConnect
	}
	return r
}
