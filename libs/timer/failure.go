package timer

// Failure is the category of error of an attempt. Attempts are recorded and filtered by it.
type Failure string

// The failure categories.
const (
	FailureNone    Failure = ""
	FailureDNS     Failure = "dns"     // the name did not resolve
	FailureConnect Failure = "connect" // the connection failed
	// FailureTLS: the handshake failed, or the certificate was not trusted.
	FailureTLS      Failure = "tls"
	FailureTimeout  Failure = "timeout"   // no complete response in time
	FailureStatus   Failure = "status"    // a response status that is not a success
	FailureRule     Failure = "rule"      // a body that does not match the success rule
	FailureRefused  Failure = "refused"   // the egress policy forbids the address
	FailureReset    Failure = "reset"     // the connection was reset
	FailureTooLarge Failure = "too_large" // the response is too large to be judged
	FailureProtocol Failure = "protocol"  // the response violates the protocol
	// FailureRedirect: a redirect that is not followed, or one to another origin, which then accepted
	// the fire without the token to complete it.
	FailureRedirect Failure = "redirect"
	FailureAuth     Failure = "auth" // no OAuth2 token could be obtained
	// FailureInvalid means that the request cannot be built because of a template, a secret or an
	// unknown kind of target, or that its header is larger than the server takes.
	FailureInvalid  Failure = "invalid"
	FailureCanceled Failure = "cancelled" // the executor cancelled the call
	FailureAsync    Failure = "async"     // accepted, and then completed as failed, or not in time
	FailureCircuit  Failure = "circuit"   // not sent: the endpoint's breaker is open
)

// Failures returns all categories. The API validates its filter with them.
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

// Reasons of failed fires, in addition to ReasonExhausted and ReasonRejected.
const (
	ReasonNotRetried Reason = "not_retried" // the timer does not retry this status
	// ReasonGaveUp means that the next attempt would start later than give_up_after allows.
	ReasonGaveUp Reason = "gave_up"
	// ReasonGone means that the receiver answered 410, which pauses an active timer.
	ReasonGone Reason = "gone"
)
