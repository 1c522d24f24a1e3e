package timer

// Failure is the class of what went wrong in an attempt. Attempts are recorded and filtered by it.
type Failure string

// The classes.
const (
	FailureNone     Failure = ""
	FailureDNS      Failure = "dns"       // the name has no address
	FailureConnect  Failure = "connect"   // nobody answered there
	FailureTLS      Failure = "tls"       // no handshake, or a certificate that is not believed
	FailureTimeout  Failure = "timeout"   // no whole answer in time
	FailureStatus   Failure = "status"    // an answer that is no success
	FailureRule     Failure = "rule"      // a body that the success rule does not match
	FailureRefused  Failure = "refused"   // the egress policy forbids the address
	FailureReset    Failure = "reset"     // the connection broke off
	FailureTooLarge Failure = "too_large" // headers beyond every bound
	FailureProtocol Failure = "protocol"  // an answer that is not of the protocol
	FailureRedirect Failure = "redirect"  // a redirect that is not followed
	FailureAuth     Failure = "auth"      // no OAuth2 token could be had
	// FailureInvalid: the request cannot be built: a template, a secret, a target of an unknown
	// kind.
	FailureInvalid  Failure = "invalid"
	FailureCanceled Failure = "cancelled" // the executor gave the call up
	FailureAsync    Failure = "async"     // accepted, and not completed in time
	FailureCircuit  Failure = "circuit"   // not sent: the endpoint's breaker is open
)

// Failures are all classes, for the check of a filter.
func Failures() []Failure {
	return []Failure{
		FailureDNS,
		FailureConnect,
		FailureTLS,
		FailureTimeout,
		FailureStatus,
		FailureRule,
		FailureRefused,
		FailureReset,
		FailureTooLarge,
		FailureProtocol,
		FailureRedirect,
		FailureAuth,
		FailureInvalid,
		FailureCanceled,
		FailureAsync,
		FailureCircuit,
	}
}

// Reasons of failed fires besides ReasonExhausted and ReasonRejected.
const (
	ReasonNotRetried Reason = "not_retried" // the status is one that the timer does not retry
	// ReasonGaveUp: the next attempt would have started later than give_up_after allows.
	ReasonGaveUp Reason = "gave_up"
	// ReasonGone: the receiver answered 410; the timer was paused with the same reason.
	ReasonGone Reason = "gone"
)
