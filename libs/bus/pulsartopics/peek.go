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
)

// MaxPeek is the largest number of messages per call. Each message costs at least one request.
const MaxPeek = 1000

// Message is a message for display. It has no properties: the admin client mixes up those of a
// batch, and the payload has the same information.
type Message struct {
	ID        string    // ledger:entry:partition, and the position in the batch
	Published time.Time // by the clock of the producer; zero if unknown
	Decoded   proto.Message
	Raw       []byte // payload as it was sent
	Err       error  // why decoding failed
}

// PeekBacklog returns up to n unacknowledged messages of a subscription: the oldest of each
// partition, in order of publication. Consumers continue meanwhile, so the messages may already be
// acknowledged. Pulsar creates a subscription at which it is asked to peek and does not have. So
// PeekBacklog asks first, and fails with ErrNoSubscription if no partition has it. Pulsar has no call
// for both, so a subscription that is deleted between them is created again.
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
	var known []string
	exists := false
	for _, p := range parts {
		names, err := t.admin.Subscriptions().ListWithContext(ctx, p)
		if err != nil && !isNotFound(err) {
			return nil, t.reading(topic, err)
		}
		known = append(known, names...)
		if !slices.Contains(names, subscription) {
			continue
		}
		exists = true
		found, err := t.peek(ctx, p, subscription, min(n, MaxPeek))
		if err != nil {
			return nil, fmt.Errorf("peeking at %s of %s: %w", subscription, topic, err)
		}
		out = append(out, decodeAll(spec.Schema, found)...)
	}
	if !exists {
		slices.Sort(known)
		return nil, fmt.Errorf("%w: topic %s has no %q (there are %q)",
			ErrNoSubscription, topic, subscription, slices.Compact(known))
	}
	slices.SortFunc(out, byTime)
	return out[:min(n, len(out))], nil
}

// peek returns up to n messages. If there are fewer, the admin client returns only an error, so
// peek searches for the largest number that succeeds.
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

// PeekLatest returns the last n published messages, oldest first, whether or not they were read. A
// topic without retention keeps acknowledged messages only while their ledger is open.
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

// tail reads backwards from the last entry of a topic, ledger by ledger.
func (t *Topics) tail(ctx context.Context, part utils.TopicName, n int) ([]*utils.Message, error) {
	st, err := t.admin.Topics().GetInternalStatsWithContext(ctx, part)
	if err != nil {
		return nil, err
	}
	var out []*utils.Message
	for i, l := range slices.Backward(st.Ledgers) {
		entries := l.Entries
		if i == len(st.Ledgers)-1 {
			entries = max(entries, st.CurrentLedgerEntries) // the list shows 0 for the open ledger
		}
		for entry := entries - 1; entry >= 0 && len(out) < n; entry-- {
			found, err := t.admin.Subscriptions().
				GetMessagesByIDWithContext(ctx, part, l.LedgerID, entry)
			switch {
			case isNotFound(err):
				return out, nil // trimmed meanwhile, with everything before it
			case isUnconfirmed(err): // not published yet
			case err != nil:
				return nil, err
			default:
				out = append(out, found...)
			}
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
