package timer

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ID identifies a timer or a session. It is 41 bits of milliseconds since 2025-01-01 UTC and 12
// bits that distinguish the ids of one millisecond.
//
// It is below 2^53, so JSON clients keep it exact. It is ordered by time, so rows created together
// are stored together. Two generators can produce the same id: the code that stores an id checks
// for that and takes another.
type ID int64

// MaxID is the largest possible id.
const MaxID ID = 1<<53 - 1

const (
	idEpochMS   = 1735689600000 // 2025-01-01T00:00:00Z
	idLowBits   = 12
	idLowMask   = 1<<idLowBits - 1
	idMSMask    = 1<<41 - 1
	decimalBase = 10
)

// String returns the id in decimal.
func (id ID) String() string { return strconv.FormatInt(int64(id), decimalBase) }

// TimeMS returns when the id was generated, in Unix ms, accurate to a few milliseconds.
func (id ID) TimeMS() int64 { return int64(id)>>idLowBits + idEpochMS }

// ParseID reads a decimal id between 1 and MaxID.
func ParseID(s string) (ID, error) {
	n, err := strconv.ParseInt(s, decimalBase, 64)
	if err != nil || n <= 0 || ID(n) > MaxID || s[0] == '+' {
		return 0, Invalid(
			"id",
			fmt.Sprintf("%q is not an id: it is a whole number from 1 to 2^53-1", s),
		)
	}
	return ID(n), nil
}

// IDs generates ids. It is safe for concurrent use.
type IDs struct {
	now func() time.Time
	mu  sync.Mutex
	ms  int64
	low int64
}

// NewIDs returns a generator that reads the time from now.
func NewIDs(now func() time.Time) *IDs { return &IDs{now: now} }

// Next returns an id greater than all that this generator has returned. Within a millisecond it
// starts at a random position, so that it rarely collides with other processes. At the end of the
// millisecond's ids it continues in the first half of the next, which leaves at least half of them.
func (g *IDs) Next() ID {
	g.mu.Lock()
	defer g.mu.Unlock()
	// A clock before 2025 (simulated or wrong) yields ids as if it were before 2094. No id is 0.
	ms := max((g.now().UnixMilli()-idEpochMS)&idMSMask, 1)
	switch {
	case ms > g.ms:
		g.ms, g.low = ms, rand.Int64N(idLowMask+1)
	case g.low == idLowMask:
		g.ms, g.low = g.ms+1, rand.Int64N((idLowMask+1)/2) //nolint:mnd // the first half
	default:
		g.low++
	}
	return ID(g.ms<<idLowBits | g.low)
}

// FireID is the identity of a fire. It is the same on every attempt, so receivers can deduplicate
// by it.
type FireID struct {
	Timer  ID
	DueMS  int64
	Series int64
}

// String returns "<timer>-<due_ms>", followed by "-<series>" if the series is not 0.
func (f FireID) String() string {
	return string(f.Append(make([]byte, 0, 40))) //nolint:mnd // three decimal numbers fit
}

// Append appends the text that String returns.
func (f FireID) Append(b []byte) []byte {
	b = strconv.AppendInt(b, int64(f.Timer), decimalBase)
	b = append(b, '-')
	b = strconv.AppendInt(b, f.DueMS, decimalBase)
	if f.Series != 0 {
		b = append(b, '-')
		b = strconv.AppendInt(b, f.Series, decimalBase)
	}
	return b
}

// ParseFireID reads the format of FireID.String.
func ParseFireID(s string) (FireID, error) {
	bad := Invalid(
		"id",
		fmt.Sprintf("%q is not a fire id: it is <timer>-<due_ms> or <timer>-<due_ms>-<series>", s),
	)
	parts := strings.Split(s, "-")
	if len(parts) != 2 && len(parts) != 3 {
		return FireID{}, bad
	}
	var n [3]int64
	for i, p := range parts {
		v, err := strconv.ParseInt(p, decimalBase, 64)
		if err != nil || v < 0 || strings.HasPrefix(p, "+") {
			return FireID{}, bad
		}
		n[i] = v
	}
	if n[0] == 0 || ID(n[0]) > MaxID || len(parts) == 3 && n[2] == 0 {
		return FireID{}, bad
	}
	return FireID{Timer: ID(n[0]), DueMS: n[1], Series: n[2]}, nil
}
