package timer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Duration is a time.Duration whose JSON form is text ("1m30s").
type Duration time.Duration

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) {
	//nolint:wrapcheck // the caller is encoding/json itself
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads the text form. As usual in JSON, null changes nothing.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("a duration is text such as \"90s\": %w", err)
	}
	v, err := ParseDuration(s)
	if err != nil {
		return fmt.Errorf("a duration is text such as \"90s\": %w", err)
	}
	*d = v
	return nil
}

// hoursPerDay is fixed: a day in a duration has 24 hours, even when a zone changes its clocks.
const hoursPerDay = 24

var errDuration = errors.New("expected a duration such as \"90s\", \"1h30m\" or \"1d12h\"")

// ParseDuration reads the format of time.ParseDuration, plus days before the other units: "1d",
// "1d12h", "1.5d". A day has 24 hours. It rejects durations longer than 292 years.
func ParseDuration(text string) (Duration, error) {
	number, rest, inDays := strings.Cut(text, "d")
	if !inDays {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%w, found %q", errDuration, text)
		}
		return Duration(d), nil
	}
	unsigned := strings.TrimLeft(number, "+-")
	hours, err := time.ParseDuration(unsigned + "h") // the number of days, parsed as hours
	var more time.Duration
	if err == nil && rest != "" {
		more, err = time.ParseDuration(rest)
	}
	wrong := err != nil || len(number)-len(unsigned) > 1 ||
		strings.Trim(unsigned, "0123456789.") != "" ||
		strings.ContainsAny(rest, "+-")
	if wrong {
		return 0, fmt.Errorf("%w, found %q", errDuration, text)
	}
	if hours > (math.MaxInt64-more)/hoursPerDay {
		return 0, fmt.Errorf("expected a duration of at most 292 years (106751d), found %q", text)
	}
	d := hours*hoursPerDay + more
	if strings.HasPrefix(number, "-") {
		d = -d
	}
	return Duration(d), nil
}
