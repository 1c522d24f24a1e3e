package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// The back-off of a message that a handler could not handle (B4).
const (
	MinBackoff = 200 * time.Millisecond
	MaxBackoff = 10 * time.Second
)

// Backoff returns how long a message waits for its next delivery after its failures-th failed one,
// counted from 1.
func Backoff(failures int) time.Duration {
	d := MinBackoff
	for i := 1; i < failures && d < MaxBackoff; i++ {
		d *= 2
	}
	return min(d, MaxBackoff)
}

// Call calls h for an implementation: it returns nil when the whole batch is done, else one answer
// per message. A panic (B5) and a wrong number of answers are errors of every message.
func (h Handler) Call(ctx context.Context, batch []Message) (errs []error) {
	defer func() {
		if p := recover(); p != nil {
			errs = SameError(len(batch), fmt.Errorf("handler panicked: %v\n%s", p, debug.Stack()))
		}
	}()
	errs = h(ctx, batch)
	if errs != nil && len(errs) != len(batch) {
		return SameError(
			len(batch),
			fmt.Errorf("handler gave %d answers to %d messages", len(errs), len(batch)),
		)
	}
	return errs
}

// LogRedeliveries logs for an implementation what of a batch is given back: a line for each reason,
// with the number of its messages. What a handler keeps on purpose is no warning, and what is
// refused for ever is not given back.
func LogRedeliveries(log zerolog.Logger, errs []error) {
	messages := make(map[string]int)
	for _, err := range errs {
		if err != nil && !IsPermanent(err) {
			messages[err.Error()]++
		}
	}
	for _, err := range errs {
		if err == nil || messages[err.Error()] == 0 {
			continue
		}
		level := zerolog.WarnLevel
		if errors.Is(err, ErrPostponed) {
			level = zerolog.DebugLevel
		}
		log.WithLevel(level).
			Err(err).
			Int("messages", messages[err.Error()]).
			Msg("to be redelivered")
		delete(messages, err.Error())
	}
}

// DeadLetter returns the message that an implementation publishes in place of m, which a handler
// refused for ever: key and properties of m with PropReason and PropTopic, and a DeadTask that
// holds m's payload unread.
func DeadLetter(from Topic, m Message, cause error) (Message, error) {
	reason := strings.ToValidUTF8(cause.Error(), "�") // it may quote the unreadable payload
	payload, err := proto.Marshal(&carillonv1.DeadTask{Reason: reason, Raw: m.Payload})
	if err != nil {
		return Message{}, fmt.Errorf("encoding a dead letter: %w", err)
	}
	props := maps.Clone(m.Properties)
	if props == nil {
		props = make(map[string]string, 2)
	}
	props[PropReason] = reason
	props[PropTopic] = string(from)
	return Message{Key: m.Key, Payload: payload, Properties: props}, nil
}
