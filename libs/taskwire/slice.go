package taskwire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Slice hands one minute × bucket to a trigger, for as long as its token is the slice's latest.
type Slice struct {
	Minute int64 // since 1970
	Bucket int32
	Token  int64 // fencing token of the lease
}

// Field numbers of carillon.v1.Slice.
const (
	sliceMinute protowire.Number = iota + 1
	sliceBucket
	sliceToken
)

// EncodeSlice returns a Slice message.
func EncodeSlice(s Slice) []byte {
	b := make([]byte, 0, usualLen)
	b = appendInt(b, sliceMinute, s.Minute)
	b = appendInt(b, sliceBucket, int64(s.Bucket))
	return appendInt(b, sliceToken, s.Token)
}

// DecodeSlice reads a Slice message. Its error means that the bytes are none.
func DecodeSlice(b []byte) (Slice, error) {
	var s Slice
	err := eachInt(b, func(n protowire.Number, v int64) {
		switch n {
		case sliceMinute:
			s.Minute = v
		case sliceBucket:
			s.Bucket = int32(v) //nolint:gosec // cut as proto does
		case sliceToken:
			s.Token = v
		}
	})
	if err != nil {
		return Slice{}, fmt.Errorf("reading a slice: %w", err)
	}
	if s.Minute <= 0 || s.Bucket < 0 || s.Token <= 0 {
		return Slice{}, errors.New("reading a slice: it names none")
	}
	return s, nil
}
