package timer

// Calendar says on which days, and at which times of them, timers may be due. Package calendar
// checks it and reads it.
//
// A day is allowed unless its weekday is among ExcludedWeekdays or its date among ExcludedDates; a
// date among IncludedDates is allowed in any case (a make-up workday). On an allowed day, an
// instant is allowed if AllowedTimes is empty or one of its ranges holds it.
type Calendar struct {
	Name string `json:"name"`
	// IANA name; empty: the zone of the schedule that uses it.
	Zone          string   `json:"time_zone,omitempty"`
	ExcludedDates []string `json:"excluded_dates,omitempty"` // "2026-12-25"
	// make-up workdays: stronger than both kinds of exclusion.
	IncludedDates    []string    `json:"included_dates,omitempty"`
	ExcludedWeekdays []string    `json:"excluded_weekdays,omitempty"` // "mon" … "sun"
	AllowedTimes     []TimeRange `json:"allowed_times,omitempty"`     // empty: the whole day
}

// TimeRange is a stretch of the day by the wall clock, From included, To not. It does not pass
// midnight.
type TimeRange struct {
	From string `json:"from"` // "09:00" or "09:00:00"
	To   string `json:"to"`   // as From; "24:00" is the end of the day
	// on which it holds; empty: on all. On an included date every range holds.
	Weekdays []string `json:"weekdays,omitempty"`
}

// Limits of a calendar.
const (
	MaxCalendarDates  = 5000 // of each kind
	MaxCalendarRanges = 48
)
