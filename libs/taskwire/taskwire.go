// Package taskwire encodes fires as carillon.v1.Task messages, for the bus and the window. It
// produces and reads the same bytes as package proto, but without reflection, because every fire is
// encoded several times. A fire at one revision always has the same bytes, without the path.
package taskwire

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Field numbers of carillon.v1.Task.
const (
	taskTimer protowire.Number = iota + 1
	taskDue
	taskSeries
	taskRunAt
	taskBucket
	taskApp
	taskVersion
	taskEpoch
	taskCause
	taskState
	taskAttempt
	taskRev
	taskFirstLateness
	taskPriorityLevel
	taskPath
	taskWaitingSince
	taskWaitedFor
)

// MaxLen is the maximum size of a task in bytes: 17 fields with a tag of one byte, of two from
// number 16 on, and a number of ten.
const MaxLen = 17*11 + 2

// typicalLen is enough for a typical task of about 40 bytes.
const typicalLen = 64

// Encode returns a fire as a Task message, without Owner and TargetBits.
func Encode(f *timer.Fire) []byte { return EncodeTask(f, timer.PathUnknown) }

// EncodeTask returns a fire as a Task message that says by which path it goes to executors.
func EncodeTask(f *timer.Fire, path timer.Path) []byte {
	return appendTask(make([]byte, 0, typicalLen), f, path)
}

// Append appends the encoding of f to dst.
func Append(dst []byte, f *timer.Fire) []byte {
	return appendTask(dst, f, timer.PathUnknown)
}

func appendTask(dst []byte, f *timer.Fire, path timer.Path) []byte {
	dst = appendInt(dst, taskTimer, int64(f.Timer))
	dst = appendInt(dst, taskDue, f.DueMS)
	dst = appendInt(dst, taskSeries, f.Series)
	dst = appendInt(dst, taskRunAt, f.RunAtMS)
	dst = appendInt(dst, taskBucket, int64(f.Bucket))
	dst = appendInt(dst, taskApp, f.AppID)
	dst = appendInt(dst, taskVersion, int64(f.Version))
	dst = appendInt(dst, taskEpoch, f.Epoch)
	dst = appendInt(dst, taskCause, int64(f.Cause))
	dst = appendInt(dst, taskState, int64(f.State))
	dst = appendInt(dst, taskAttempt, int64(f.Attempt))
	dst = appendInt(dst, taskRev, int64(f.Rev))
	dst = appendInt(dst, taskFirstLateness, f.FirstLatenessMS)
	dst = appendInt(dst, taskPriorityLevel, int64(f.PriorityLevel))
	dst = appendInt(dst, taskPath, int64(path))
	dst = appendInt(dst, taskWaitingSince, f.WaitingSinceMS)
	return appendInt(dst, taskWaitedFor, int64(f.WaitedFor))
}

func appendInt(dst []byte, n protowire.Number, v int64) []byte {
	if v == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, n, protowire.VarintType)
	//nolint:gosec // two's complement is the wire form
	return protowire.AppendVarint(dst, uint64(v))
}

// Decode reads the fire of a Task message. Its error is permanent: the bytes are not a task. It
// skips fields of newer releases.
func Decode(b []byte) (timer.Fire, error) {
	f, _, err := DecodeTask(b)
	return f, err
}

// DecodeTask reads a Task message with its path.
func DecodeTask(b []byte) (f timer.Fire, path timer.Path, err error) {
	err = eachInt(b, func(n protowire.Number, v int64) {
		switch n {
		case taskTimer:
			f.Timer = timer.ID(v)
		case taskDue:
			f.DueMS = v
		case taskSeries:
			f.Series = v
		case taskRunAt:
			f.RunAtMS = v
		case taskBucket:
			f.Bucket = int32(v) //nolint:gosec // cut as proto does
		case taskApp:
			f.AppID = v
		case taskVersion:
			f.Version = int32(v) //nolint:gosec // cut as proto does
		case taskEpoch:
			f.Epoch = v
		case taskCause:
			f.Cause = timer.Cause(clampByte(v))
		case taskState:
			f.State = timer.FireState(clampByte(v))
		case taskAttempt:
			f.Attempt = int32(v) //nolint:gosec // cut as proto does
		case taskRev:
			f.Rev = int32(v) //nolint:gosec // cut as proto does
		case taskFirstLateness:
			f.FirstLatenessMS = v
		case taskPriorityLevel:
			f.PriorityLevel = timer.PriorityLevel(clampByte(v))
		case taskPath:
			path = timer.Path(clampByte(v))
		case taskWaitingSince:
			f.WaitingSinceMS = v
		case taskWaitedFor:
			f.WaitedFor = timer.Wait(clampByte(v))
		}
	})
	if err != nil {
		return timer.Fire{}, 0, fmt.Errorf("decoding a task: %w", err)
	}
	if f.Timer <= 0 || f.Timer > timer.MaxID || f.DueMS < 0 || f.RunAtMS < 0 || f.Series < 0 ||
		f.Bucket < 0 {
		return timer.Fire{}, 0, errors.New("decoding a task: it identifies no fire")
	}
	return f, path, nil
}

// clampByte maps numbers of newer releases to 255, so that they do not look like a known value.
func clampByte(v int64) uint8 {
	if v < 0 || v > math.MaxUint8 {
		return math.MaxUint8
	}
	return uint8(v)
}

// eachInt calls f for every integer field of a message.
func eachInt(b []byte, f func(protowire.Number, int64)) error {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			//nolint:wrapcheck // the callers say what was being read
			return protowire.ParseError(size)
		}
		b = b[size:]
		if kind == protowire.VarintType {
			v, size := protowire.ConsumeVarint(b)
			if size < 0 {
				//nolint:wrapcheck // the callers say what was being read
				return protowire.ParseError(size)
			}
			f(n, int64(v)) //nolint:gosec // two's complement is the wire form
			b = b[size:]
			continue
		}
		if size = protowire.ConsumeFieldValue(n, kind, b); size < 0 {
			//nolint:wrapcheck // the callers say what was being read
			return protowire.ParseError(size)
		}
		b = b[size:]
	}
	return nil
}
