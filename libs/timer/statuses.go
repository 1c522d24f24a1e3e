package timer

import (
	"fmt"
	"strconv"
	"strings"
)

// StatusRange is the statuses from First to Last, both included.
type StatusRange struct{ First, Last int32 }

// Statuses is a set of HTTP statuses. JSON shows it as text: "200-299,404". The empty set is nil.
type Statuses []StatusRange

// Limits of a set of statuses.
const (
	maxStatusRanges = 32
	firstStatus     = 100
	lastStatus      = 999
)

// ParseStatuses reads "200-299,404". The empty text is the empty set.
func ParseStatuses(text string) (Statuses, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxStatusRanges {
		return nil, fmt.Errorf("has %d parts: at most %d are allowed", len(parts), maxStatusRanges)
	}
	set := make(Statuses, 0, len(parts))
	for _, p := range parts {
		from, to, isRange := strings.Cut(p, "-")
		if !isRange {
			to = from
		}
		a, ok1 := parseStatus(from)
		b, ok2 := parseStatus(to)
		if !ok1 || !ok2 || a > b {
			return nil, fmt.Errorf("%q is not a status or a range of statuses such as 200-299", strings.TrimSpace(p))
		}
		set = append(set, StatusRange{a, b})
	}
	return set, nil
}

func parseStatus(s string) (int32, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), decimalBase, 31)
	return int32(n), err == nil && n >= firstStatus && n <= lastStatus
}

// Contains tells whether a status is in the set.
func (s Statuses) Contains(status int32) bool {
	for _, r := range s {
		if r.First <= status && status <= r.Last {
			return true
		}
	}
	return false
}

// String returns the text that ParseStatuses reads.
func (s Statuses) String() string {
	var b []byte
	for i, r := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(r.First), decimalBase)
		if r.Last != r.First {
			b = strconv.AppendInt(append(b, '-'), int64(r.Last), decimalBase)
		}
	}
	return string(b)
}

// MarshalText writes the text form.
func (s Statuses) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the text form.
func (s *Statuses) UnmarshalText(b []byte) error {
	set, err := ParseStatuses(string(b))
	if err != nil {
		return err
	}
	*s = set
	return nil
}
