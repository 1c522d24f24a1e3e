package schedule

import (
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// once is due at an instant, or at the anchor if that is later.
type once struct{ atMS int64 }

func (o once) next(afterMS, anchorMS int64) int64 { return ifAfter(max(o.atMS, anchorMS), afterMS) }

// delay is due a fixed time after the anchor.
type delay struct{ ms int64 }

func (d delay) next(afterMS, anchorMS int64) int64 { return ifAfter(anchorMS+d.ms, afterMS) }

// every is due at anchor + offset + k × ms, k from 0.
type every struct {
	ms     int64
	offset int64
	anchor int64 // replaces the caller's anchor if fixed is set
	fixed  bool
}

func (e every) next(afterMS, anchorMS int64) int64 {
	if e.fixed {
		anchorMS = e.anchor
	}
	if afterMS >= maxMS || anchorMS >= maxMS {
		return timer.NeverMS
	}
	due := anchorMS + e.offset
	if afterMS >= due {
		due += ((afterMS-due)/e.ms + 1) * e.ms
	}
	if due >= maxMS {
		return timer.NeverMS
	}
	return due
}

func ifAfter(ms, afterMS int64) int64 {
	if ms > afterMS {
		return ms
	}
	return timer.NeverMS
}

// ceilMS rounds up: a fire must never be early, not even by part of a millisecond.
func ceilMS(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

func ceilDurationMS(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
