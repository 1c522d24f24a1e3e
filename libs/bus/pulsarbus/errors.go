package pulsarbus

import (
	"errors"
	"strings"

	"github.com/apache/pulsar-client-go/pulsar"
)

// isNotFound reports whether a topic, namespace or tenant does not exist. The client has no error
// type for most of these.
func isNotFound(err error) bool {
	return err != nil &&
		(errors.Is(err, pulsar.ErrTopicNotfound) || strings.Contains(err.Error(), "TopicNotFound") ||
			strings.Contains(err.Error(), "NotFound"))
}

// isGone reports whether a producer can never send again, because it was closed or its topic is
// gone. A new producer may succeed.
func isGone(err error) bool {
	return errors.Is(err, pulsar.ErrProducerClosed) || errors.Is(err, pulsar.ErrTopicNotfound) ||
		errors.Is(err, pulsar.ErrProducerFenced) ||
		errors.Is(err, pulsar.ErrTopicTerminated) || errors.Is(err, errSendPanicked)
}

// isAnswer reports whether the broker answered, and refused. It is no answer that the broker, or its
// storage, is not available.
func isAnswer(err error) bool {
	_, answer, ok := strings.Cut(err.Error(), "server error: ")
	for _, unavailable := range []string{
		"ServiceNotReady", "TooManyRequests", "MetadataError", "PersistenceError",
	} {
		if strings.HasPrefix(answer, unavailable) {
			return false
		}
	}
	return ok || isNotFound(err)
}

// isTerminated reports whether a topic takes no more messages, ever.
func isTerminated(err error) bool {
	return errors.Is(err, pulsar.ErrTopicTerminated) ||
		strings.Contains(err.Error(), "TopicTerminatedError")
}

// isInvalid reports whether a topic's name is invalid, so that repeating the call cannot help.
func isInvalid(err error) bool {
	s := err.Error()
	return strings.Contains(s, "InvalidTopicName") || strings.Contains(s, "Invalid topic name")
}

// isDenied reports whether the broker denied access. It also does so while it cannot read the
// permissions, for example without its ZooKeeper: then repeating helps.
func isDenied(err error) bool {
	s := err.Error()
	return strings.Contains(s, "AuthorizationError") || strings.Contains(s, "AuthenticationError")
}
