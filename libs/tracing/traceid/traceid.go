// Package traceid derives the ids of a fire's trace from the fire, so that every process adds to the
// same trace without passing a context along.
package traceid

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"

	"github.com/carillon-timer/carillon/libs/timer"
)

// ID is the id of a trace.
type ID = [16]byte

// SpanID is the id of a span.
type SpanID = [8]byte

// Of returns the id of a fire's trace.
func Of(fire timer.FireID) ID {
	var buf [64]byte
	return OfText(fire.Append(buf[:0]))
}

// OfText is Of for the text of a fire id.
func OfText(fire []byte) (id ID) {
	h := xxhash.New()
	_, _ = h.Write(fire) // it never fails
	binary.BigEndian.PutUint64(id[:8], h.Sum64())
	_, _ = h.Write([]byte("/trace"))
	binary.BigEndian.PutUint64(id[8:], h.Sum64()|1) // an id of zeros is invalid
	return id
}

// RootOf returns the id of the root span of a trace. All processes know it before the span exists,
// which is when the fire has its outcome.
func RootOf(id ID) (root SpanID) {
	binary.BigEndian.PutUint64(root[:], xxhash.Sum64(id[:])|1)
	return root
}

// NewSpan returns a random span id. Two executors may make the same attempt, so it derives from
// nothing.
func NewSpan() (id SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// ParentLen is the length of a W3C traceparent of version 00.
const ParentLen = 55

// AppendParent appends a W3C traceparent.
func AppendParent(b []byte, id ID, span SpanID, sampled bool) []byte {
	b = appendHex(append(b, "00-"...), id[:])
	b = appendHex(append(b, '-'), span[:])
	if sampled {
		return append(b, "-01"...)
	}
	return append(b, "-00"...)
}

func appendHex(b, id []byte) []byte {
	const digits = "0123456789abcdef"
	for _, c := range id {
		b = append(b, digits[c>>4], digits[c&15])
	}
	return b
}
