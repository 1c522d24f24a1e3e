package pulsarbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"

	"github.com/carillon-timer/carillon/libs/bus"
)

// refusalWait is how long messages wait for their confirmation after the broker refused a message of
// the same client.
const refusalWait = time.Second

// errDiscarded means that the producer was discarded while a message waited for its confirmation.
var errDiscarded = errors.New("producer discarded")

// errSendPanicked means that the client panicked over a message, because its producer closed. Whether
// it holds the message is unknown.
var errSendPanicked = errors.New("pulsar client panicked")

// externalProducer is the producer of an external topic. Once it is discarded, the client no longer
// sends the messages that it still holds, and each call that waits for one sends it with a new
// producer.
type externalProducer struct {
	pulsar.Producer

	topic     string
	state     *connectionState
	discarded chan struct{}
	discard   func() // closes discarded

	mu      sync.Mutex
	sent    int64         // counts messages
	waiting map[int64]int // sizes of the messages without a confirmation
	blamed  bool          // one of them counts as refused
}

func newExternalProducer(
	topic string,
	state *connectionState,
	p pulsar.Producer,
) *externalProducer {
	discarded := make(chan struct{})
	return &externalProducer{
		Producer:  p,
		topic:     topic,
		state:     state,
		discarded: discarded,
		discard: sync.OnceFunc(func() {
			close(discarded)
			state.forget(topic)
		}),
		waiting: make(map[int64]int),
	}
}

func (p *externalProducer) isDiscarded() bool {
	select {
	case <-p.discarded:
		return true
	default:
		return false
	}
}

// begin counts a message, which waits until end.
func (p *externalProducer) begin(size int) (n int64, end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	n = p.sent
	p.waiting[n] = size
	return n, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, n)
	}
}

// blame reports whether a message counts as the one that the broker refused: it is the largest, and
// of these the first. There is one at most, and then the producer is discarded.
func (p *externalProducer) blame(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blamed {
		return false
	}
	size := p.waiting[n]
	for other, has := range p.waiting {
		if has > size || has == size && other < n {
			return false
		}
	}
	p.blamed = true
	return true
}

// send sends a message and waits for the confirmation of the broker.
//
// If ctx ends first, the client may hold the message and send it much later, when the attempt has
// failed long since and its timer may be deleted. So without a connection the error is
// an abandonedError: the producer must be discarded.
//
// The client does not tell which message the broker refused: it writes a line to its log, and then
// hears no confirmations of that producer, or sends the message again and again. What a broker refuses
// are messages that are too large. So the largest that still waits some time after a refusal counts
// as refused, which is an abandonedError, too.
func (p *externalProducer) send(ctx context.Context, msg *pulsar.ProducerMessage) error {
	n, end := p.begin(len(msg.Payload))
	defer end()
	before, refused := p.state.refusal()
	done := p.sendAsync(ctx, msg)
	var waited <-chan time.Time
	for {
		select {
		case err := <-done:
			if isGone(err) && p.isDiscarded() {
				return errDiscarded
			}
			return err
		case <-p.discarded:
			return errDiscarded
		case <-refused:
			refused = nil
			timer := time.NewTimer(refusalWait)
			defer timer.Stop()
			waited = timer.C
		case <-waited:
			if why, _ := p.state.refusal(); p.blame(n) {
				return abandonedError{bus.Refused(*why)}
			}
		case <-ctx.Done():
			err := fmt.Errorf("waiting for confirmation: %w", ctx.Err())
			if why, _ := p.state.refusal(); why != before || p.state.disconnected(p.topic) {
				return abandonedError{err}
			}
			return err
		}
	}
}

// sendAsync sends a message. The client panics if its producer closes during the call; that is
// returned as an error.
func (p *externalProducer) sendAsync(
	ctx context.Context,
	msg *pulsar.ProducerMessage,
) (answered <-chan error) {
	done := make(chan error, 1)
	answer := func(err error) {
		select {
		case done <- err:
		default: // already answered
		}
	}
	answered = done
	defer func() {
		if r := recover(); r != nil {
			answer(fmt.Errorf("%w: %v", errSendPanicked, r))
		}
	}()
	p.SendAsync(ctx, msg, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
		answer(err)
	})
	return answered
}

// abandonedError is the error of a message that the client may still hold.
type abandonedError struct{ error }

func (e abandonedError) Unwrap() error { return e.error }
