package schedule

import (
	"math/bits"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Jitter returns how long after its due instant a fire runs, in milliseconds. It is uniform in [0,
// limit] and always the same for a timer and due instant. So all replicas and retries agree.
func Jitter(id timer.ID, dueMS int64, limit timer.Duration) int64 {
	span := ceilDurationMS(time.Duration(limit))
	if span <= 0 {
		return 0
	}
	//nolint:gosec // ids, instants and spans are not negative; bits are bits
	hi, _ := bits.Mul64(mix(mix(uint64(id))^uint64(dueMS)), uint64(span)+1)
	//nolint:gosec // at most span
	return int64(hi)
}

// mix is the finalizer of SplitMix64. Every input bit changes half of the output bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
