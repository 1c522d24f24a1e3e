package timer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// StatusRange is the range of statuses from First to Last, both inclusive.
type StatusRange struct{ First, Last int32 }

// Statuses is a set of HTTP statuses and gRPC codes. gRPC codes are smaller than any HTTP status.
// Its JSON form is text: "200-299,404". The empty set is nil.
type Statuses []StatusRange

// maxStatusRanges limits a set of statuses.
const maxStatusRanges = 32

// What receivers can answer. 0, the gRPC code of OK, is no failure.
var (
	HTTPStatuses = StatusRange{100, 999}
	GRPCCodes    = StatusRange{1, 16}
)

// Within reports whether a range is part of one of others.
func (r StatusRange) Within(others ...StatusRange) bool {
	return slices.ContainsFunc(others, func(o StatusRange) bool {
		return o.First <= r.First && r.Last <= o.Last
	})
}

// ParseStatuses reads HTTP statuses, such as "200-299,404". Empty text is the empty set.
func ParseStatuses(text string) (Statuses, error) {
	return parseSet(text, "a status or a range of statuses such as 200-299", HTTPStatuses)
}

// ParseStatusesAndCodes reads HTTP statuses and gRPC codes, such as "404,5". A range must not mix
// the two. Empty text is the empty set.
func ParseStatusesAndCodes(text string) (Statuses, error) {
	return parseSet(
		text,
		"a status of HTTP, a code of gRPC from 1 to 16, or a range of one of them such as 400-404",
		HTTPStatuses,
		GRPCCodes,
	)
}

func parseSet(text, what string, valid ...StatusRange) (Statuses, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxStatusRanges {
		return nil, fmt.Errorf(
			"expected at most %d statuses and ranges, found %d",
			maxStatusRanges,
			len(parts),
		)
	}
	set := make(Statuses, 0, len(parts))
	for _, p := range parts {
		from, to, isRange := strings.Cut(p, "-")
		if !isRange {
			to = from
		}
		a, ok1 := parseStatus(from)
		b, ok2 := parseStatus(to)
		if !ok1 || !ok2 || a > b || !(StatusRange{a, b}).Within(valid...) {
			return nil, fmt.Errorf("expected %s, found %q", what, strings.TrimSpace(p))
		}
		set = append(set, StatusRange{a, b})
	}
	return set, nil
}

func parseStatus(s string) (int32, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), decimalBase, 31)
	return int32(n), err == nil
}

// Contains reports whether the set contains a status.
func (s Statuses) Contains(status int32) bool {
	for _, r := range s {
		if r.First <= status && status <= r.Last {
			return true
		}
	}
	return false
}

// String returns the text form that ParseStatusesAndCodes reads.
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
	set, err := ParseStatusesAndCodes(string(b))
	if err != nil {
		return err
	}
	*s = set
	return nil
}
