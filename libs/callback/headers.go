package callback

import (
	"strconv"
	"time"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
)

// Headers of callbacks, in canonical form. The first group is on every callback.
const (
	HeaderTimerID = "Carillon-Timer-Id"
	HeaderFireID  = egress.HeaderCallback
	HeaderDue     = "Carillon-Due"     // RFC 3339, milliseconds, UTC: the due instant
	HeaderAttempt = "Carillon-Attempt" // from 1
	// HeaderStart is the executor's clock just before the call: RFC 3339, milliseconds, UTC.
	HeaderStart          = "Carillon-Start"
	HeaderCause          = "Carillon-Cause"  // why the fire exists: schedule, …
	HeaderIdempotencyKey = "Idempotency-Key" // the fire id
	// HeaderTraceParent is a W3C trace context: one trace per fire, with a span per attempt. The
	// trace id derives from the fire id, so all attempts of a fire are one trace, whichever executor
	// makes them.
	HeaderTraceParent = "Traceparent"

	// HeaderToken authenticates the receiver at POST /api/v2/fires/{id}/complete. It is sent only
	// if the receiver may complete the fire later.
	HeaderToken = "Carillon-Complete-Token"

	// HeaderAccepted with the value "async" and status 202 accepts the fire for later completion.
	// HeaderWithin says within how long, as a Go duration; the target's own limit applies where it
	// is absent or longer.
	HeaderAccepted = "Carillon-Accepted"
	HeaderWithin   = "Carillon-Complete-Within"

	ownHeaderPrefix = "Carillon-"
	signaturePrefix = "Webhook-"
)

// CauseTest is the value of HeaderCause on a test call, which no fire is behind.
const CauseTest = "test"

const (
	timeLayout    = "2006-01-02T15:04:05.000Z"
	defaultCause  = "schedule"
	acceptedAsync = "async"
	maxOwnHeaders = 12 // of Carillon's own headers per callback
)

// headerList holds Carillon's own headers, in order. They are set last, so that a target's headers
// cannot replace them.
type headerList struct {
	names  [maxOwnHeaders]string
	values [maxOwnHeaders]string
	n      int
}

func (o *headerList) add(name, value string) {
	o.names[o.n], o.values[o.n] = name, value
	o.n++
}

// ownHeaders adds the headers that are the same for every protocol. Most values are slices of one
// string, which saves nine allocations.
func ownHeaders(o *headerList, r *Request, body string) {
	var buf [288]byte
	b := buf[:0]
	var ends [6]int
	b = strconv.AppendInt(b, int64(r.Fire.Timer), 10)
	ends[0] = len(b)
	b = append(b, r.Fire.String()...)
	ends[1] = len(b)
	b = time.UnixMilli(r.Fire.DueMS).UTC().AppendFormat(b, timeLayout)
	ends[2] = len(b)
	b = strconv.AppendInt(b, int64(r.Attempt), 10)
	ends[3] = len(b)
	b = r.Start.UTC().AppendFormat(b, timeLayout)
	ends[4] = len(b)
	if r.TraceParent != "" {
		b = append(b, r.TraceParent...)
	} else {
		// Nobody exports the span. The sampled flag is set, so that the receiver decides about
		// recording.
		b = traceid.AppendParent(b, traceid.OfText(b[ends[0]:ends[1]]), traceid.NewSpan(), true)
	}
	ends[5] = len(b)
	all, from := string(b), 0
	for i, name := range [...]string{HeaderTimerID, HeaderFireID, HeaderDue, HeaderAttempt, HeaderStart, HeaderTraceParent} {
		o.add(name, all[from:ends[i]])
		from = ends[i]
	}
	fire := o.values[1]
	o.add(HeaderIdempotencyKey, fire)
	cause := r.Cause
	if cause == "" {
		cause = defaultCause
	}
	o.add(HeaderCause, cause)
	if r.Token != "" && r.Target.Async > 0 {
		o.add(HeaderToken, r.Token)
	}
	if r.Signer != nil && !r.Target.Unsigned {
		timestamp, signature := r.Signer.Sign(fire, r.Start, body)
		o.add(signing.HeaderID, fire)
		o.add(signing.HeaderTimestamp, timestamp)
		o.add(signing.HeaderSignature, signature)
	}
}
