package timer

import (
	"encoding/json"
	"fmt"
	"time"
)

// ScheduleKind says how a schedule names its instants.
type ScheduleKind string

// The kinds.
const (
	KindCron  ScheduleKind = "cron"  // Specs
	KindAt    ScheduleKind = "at"    // At; one that is past at the first activation is due at that moment
	KindDelay ScheduleKind = "delay" // Delay after the first activation
)

// Schedule is when a timer is due. Package schedule checks it and computes its instants.
type Schedule struct {
	Kind  ScheduleKind `json:"kind"`
	Specs []string     `json:"specs,omitempty"` // cron: 5, 6 or 7 fields, or a descriptor; instants that coincide are one
	Zone  string       `json:"zone,omitempty"`  // cron: IANA name; empty is UTC
	At    *time.Time   `json:"at,omitempty"`    // at
	Delay Duration     `json:"delay,omitempty"` // delay
}

// Duration is a time.Duration that JSON shows as text ("1m30s").
type Duration time.Duration

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String()) //nolint:wrapcheck // the caller is encoding/json itself
}

// UnmarshalJSON reads the text form. As everywhere in JSON, null changes nothing.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a duration is text such as \"90s\": %w", err)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("a duration is text such as \"90s\": %w", err)
	}
	*d = Duration(v)
	return nil
}
