package callback

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/signing"
)

// Headers of callbacks, in their canonical form. The first group is on every callback.
const (
	HeaderTimerID = "Carillon-Timer-Id"
	HeaderFireID  = egress.HeaderCallback
	HeaderDue     = "Carillon-Due"     // RFC 3339, milliseconds, UTC: the nominal instant
	HeaderAttempt = "Carillon-Attempt" // from 1
	// HeaderStart: RFC 3339, milliseconds, UTC: the executor's clock just before the call.
	HeaderStart          = "Carillon-Start"
	HeaderCause          = "Carillon-Cause"  // why the fire exists: schedule, …
	HeaderIdempotencyKey = "Idempotency-Key" // the fire id
	// HeaderTraceParent: W3C: one trace for all attempts of a fire, a span of its own for each.
	HeaderTraceParent = "Traceparent"

	// HeaderToken is sent only where the receiver may accept now and complete later: what it proves
	// itself by at POST /api/v2/fires/{id}/complete.
	HeaderToken = "Carillon-Complete-Token"

	// HeaderAccepted with the value "async" and status 202 is such a receiver's answer;
	// HeaderWithin beside it says within how long it completes the fire (a Go duration; the
	// target's own where absent or longer).
	HeaderAccepted = "Carillon-Accepted"
	HeaderWithin   = "Carillon-Complete-Within"

	ownHeaderPrefix = "Carillon-"
	signaturePrefix = "Webhook-"
)

const (
	timeLayout    = "2006-01-02T15:04:05.000Z"
	defaultCause  = "schedule"
	acceptedAsync = "async"
	maxOwnHeaders = 12 // headers of ours on one callback
)

// headerList are the headers that we set, in order. They come last, so that nothing that a user set can
// pass for them.
type headerList struct {
	names  [maxOwnHeaders]string
	values [maxOwnHeaders]string
	n      int
}

func (o *headerList) add(name, value string) {
	o.names[o.n], o.values[o.n] = name, value
	o.n++
}

// ownHeaders writes what is the same for every protocol. Most values are cut out of one string: one
// allocation, and not ten.
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
	b = appendTraceParent(b, b[ends[0]:ends[1]])
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

// appendTraceParent writes a traceparent whose trace id follows from the fire id, so that all
// attempts of a fire, by whichever executor, are one trace. The span id is random: two executors
// may make the same attempt. Sampled is set: whether to record is the receiver's to decide, and a
// flag of 0 would take it from most.
func appendTraceParent(b, fire []byte) []byte {
	h := xxhash.New()
	_, _ = h.Write(fire) // it never fails
	high := h.Sum64()
	_, _ = h.Write([]byte("/trace"))
	low := h.Sum64() | 1 // an id of zeros is none
	b = appendHex(append(b, "00-"...), high)
	b = appendHex(b, low)
	b = appendHex(append(b, '-'), rand.Uint64()|1)
	return append(b, "-01"...)
}

func appendHex(b []byte, n uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[n>>shift&15])
	}
	return b
}
