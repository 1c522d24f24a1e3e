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

// Limits of the back-off between redeliveries of a message (B4).
const (
	MinBackoff = 200 * time.Millisecond
	MaxBackoff = 10 * time.Second
)

// Backoff returns the delay before the next delivery of a message after the given number of
// failures, counted from 1.
func Backoff(failures int) time.Duration {
	d := MinBackoff
	for i := 1; i < failures && d < MaxBackoff; i++ {
		d *= 2
	}
	return min(d, MaxBackoff)
}

// Call calls h on behalf of an implementation. It returns nil if the whole batch succeeded, else
// one result per message. A panic (B5) or a wrong number of results fails every message.
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
			fmt.Errorf("handler returned %d results for %d messages", len(errs), len(batch)),
		)
	}
	return errs
}

// LogRedeliveries logs the messages of a batch that will be redelivered: one line per reason, with
// the number of messages. ErrPostponed is logged as debug. Permanent errors are not logged, because
// they are not redelivered.
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
			Msg("handler failed, message nacked")
		delete(messages, err.Error())
	}
}

// DeadLetter returns the message that an implementation publishes instead of m after a permanent
// error. It has the key and the properties of m, PropReason and PropTopic. Its payload is a
// DeadTask with the raw payload of m.
func DeadLetter(from Topic, m Message, cause error) (Message, error) {
	reason := strings.ToValidUTF8(cause.Error(), "�") // the error may quote the unreadable payload
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
