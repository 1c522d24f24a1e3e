package pulsartopics

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/carillon-timer/carillon/libs/bus"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// MaxPeek is how many messages a call may ask for: each costs a request or more.
const MaxPeek = 1000

// Message is one that somebody looks at. Properties are not shown: the admin client mixes up those
// of a batch, and what they say stands in the payload too.
type Message struct {
	ID        string    // ledger:entry:partition, and the place in the batch
	Published time.Time // by the producer's clock; zero where the broker does not say
	Decoded   proto.Message
	Raw       []byte // as it was sent
	Err       error  // why it could not be decoded
}

// PeekBacklog returns up to n messages that a subscription has not acknowledged, the oldest of each
// partition first, in the order of their publication. What it returns may be gone by then:
// consumers go on.
func (t *Topics) PeekBacklog(
	ctx context.Context,
	topic bus.Topic,
	subscription string,
	n int,
) ([]Message, error) {
	spec, name, err := t.find(topic)
	if err != nil {
		return nil, err
	}
	parts, err := t.parts(ctx, topic, name)
	if err != nil {
		return nil, err
	}
	var out []Message
	for _, p := range parts {
		found, err := t.peek(ctx, p, subscription, min(n, MaxPeek))
		if err != nil {
			return nil, fmt.Errorf("peeking at %s of %s: %w", subscription, topic, err)
		}
		out = append(out, decodeAll(spec.Schema, found)...)
	}
	slices.SortFunc(out, byTime)
	return out[:min(n, len(out))], nil
}

// peek asks for n messages. The admin client answers with an error alone when there are fewer: then
// it is asked for fewer, by halves.
func (t *Topics) peek(
	ctx context.Context,
	part utils.TopicName,
	subscription string,
	n int,
) ([]*utils.Message, error) {
	var best []*utils.Message
	for try, most := n, n; len(best) < most; try = (len(best) + most + 1) / 2 {
		found, err := t.admin.Subscriptions().PeekMessagesWithContext(ctx, part, subscription, try)
		switch {
		case isNotFound(err):
			most = try - 1
		case err != nil:
			return nil, err
		default:
			best = found
		}
	}
	return best, nil
}

// PeekLatest returns up to n messages that were published last, the oldest of them first, whoever has
// read them. Topics without retention keep what all subscriptions have acknowledged for as long as
// its ledger is open.
func (t *Topics) PeekLatest(ctx context.Context, topic bus.Topic, n int) ([]Message, error) {
	spec, name, err := t.find(topic)
	if err != nil {
		return nil, err
	}
	parts, err := t.parts(ctx, topic, name)
	if err != nil {
		return nil, err
	}
	var out []Message
	for _, p := range parts {
		found, err := t.tail(ctx, p, min(n, MaxPeek))
		if err != nil {
			return nil, fmt.Errorf("reading the end of %s: %w", topic, err)
		}
		out = append(out, decodeAll(spec.Schema, found)...)
	}
	slices.SortFunc(out, byTime)
	return out[max(0, len(out)-n):], nil
}

// tail walks back from the last entry of a topic, ledger by ledger.
func (t *Topics) tail(ctx context.Context, part utils.TopicName, n int) ([]*utils.Message, error) {
	st, err := t.admin.Topics().GetInternalStatsWithContext(ctx, part)
	if err != nil {
		return nil, err
	}
	var out []*utils.Message
	for i, l := range slices.Backward(st.Ledgers) {
		entries := l.Entries
		if i == len(st.Ledgers)-1 {
			entries = max(entries, st.CurrentLedgerEntries) // of the open one the list says 0
		}
		for entry := entries - 1; entry >= 0 && len(out) < n; entry-- {
			found, err := t.admin.Subscriptions().
				GetMessagesByIDWithContext(ctx, part, l.LedgerID, entry)
			if isNotFound(err) {
				return out, nil // trimmed meanwhile, and so is all before it
			}
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

// DeadLetter is a fire that was given up, or a message that nobody could read.
type DeadLetter struct {
	Message

	Task *carillonv1.DeadTask // nil where even the letter could not be read
}

// DeadLetters returns up to n dead letters that wait for the operators, the oldest first.
func (t *Topics) DeadLetters(ctx context.Context, n int) ([]DeadLetter, error) {
	msgs, err := t.PeekBacklog(ctx, bus.TasksDead, bus.SubOperators, n)
	if err != nil {
		return nil, err
	}
	out := make([]DeadLetter, len(msgs))
	for i, m := range msgs {
		out[i].Message = m
		d := new(carillonv1.DeadTask)
		if proto.Unmarshal(m.Raw, d) == nil {
			out[i].Task = d
		}
	}
	return out, nil
}

func decodeAll(of protoreflect.MessageDescriptor, found []*utils.Message) []Message {
	out := make([]Message, len(found))
	for i, f := range found {
		m := Message{
			ID: fmt.Sprintf(
				"%d:%d:%d:%d",
				f.MessageID.LedgerID,
				f.MessageID.EntryID,
				f.MessageID.PartitionIndex,
				f.MessageID.BatchIndex,
			),
		}
		m.Raw = f.Payload
		m.Published, _ = time.Parse(time.RFC3339, f.Properties["publish-time"])
		d := dynamicpb.NewMessage(of)
		if err := proto.Unmarshal(f.Payload, d); err != nil {
			m.Err = fmt.Errorf("not a %s: %w", of.FullName(), err)
		} else {
			m.Decoded = d
		}
		out[i] = m
	}
	return out
}
