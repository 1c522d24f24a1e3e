package timer

// Calendar lists the days, and the times of those days, at which timers may be due. Package
// calendar validates and evaluates it.
//
// A day is allowed unless ExcludedWeekdays has its weekday or ExcludedDates has its date. A date in
// IncludedDates is always allowed (a make-up workday). On an allowed day, an instant is allowed if
// AllowedTimes is empty or one of its ranges contains it.
type Calendar struct {
	Name string `json:"name"`
	// Zone is an IANA name. Empty means the zone of the schedule that uses the calendar.
	Zone          string   `json:"time_zone,omitempty"`
	ExcludedDates []string `json:"excluded_dates,omitempty"` // "2026-12-25"
	// IncludedDates are make-up workdays. They override both kinds of exclusion.
	IncludedDates    []string    `json:"included_dates,omitempty"`
	ExcludedWeekdays []string    `json:"excluded_weekdays,omitempty"` // "mon" … "sun"
	AllowedTimes     []TimeRange `json:"allowed_times,omitempty"`     // empty means the whole day
}

// TimeRange is a range of wall-clock times within one day: From inclusive, To exclusive. It cannot
// cross midnight.
type TimeRange struct {
	From string `json:"from"` // "09:00" or "09:00:00"
	To   string `json:"to"`   // same format as From; "24:00" is the end of the day
	// Weekdays are the days on which the range applies; empty means every day. On an included date
	// every range applies.
	Weekdays []string `json:"weekdays,omitempty"`
}

// Limits of a calendar.
const (
	MaxCalendarDates  = 5000 // of each kind
	MaxCalendarRanges = 48
)
