package cli

import (
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// listedLayout is the form in which lists show instants. A reader takes milliseconds, too.
const listedLayout = "2006-01-02 15:04:05 MST"

// listed shows an instant as lists do, to the millisecond if it has some.
func listed(at time.Time) string {
	if at.Nanosecond() != 0 {
		return at.Format("2006-01-02 15:04:05.000 MST")
	}
	return at.Format(listedLayout)
}

// instant reads an instant of a flag or an argument: in RFC 3339, as a duration from now, or as lists
// show it. The answer is in RFC 3339.
func instant(text string, now time.Time) (string, error) {
	if d, err := timer.ParseDuration(text); err == nil {
		return now.Add(time.Duration(d)).UTC().Format(time.RFC3339Nano), nil
	}
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		return text, nil
	}
	if at, ok := parseListed(text, time.Local); ok {
		return at.UTC().Format(time.RFC3339Nano), nil
	}
	return "", fmt.Errorf(
		"expected 2030-01-31T09:00:00Z, an instant as lists show it, or a duration such as 90m or 7d, "+
			"found %q",
		text,
	)
}

// parseListed reads an instant as lists show it in a zone. The abbreviation of another zone is not
// known, but that of UTC: lists of several people have the zones of their terminals.
func parseListed(text string, zone *time.Location) (time.Time, bool) {
	at, err := time.ParseInLocation(listedLayout, text, zone)
	// An abbreviation that is not known makes a zone of its own, with the offset 0.
	return at, err == nil && (at.Location() == time.UTC || at.Location() == zone)
}

// repeatable is instant for a command that may be repeated under a key: if the text is relative, the
// flags of the repetition have what it stood for. Another instant under the same key is a conflict.
func (t *tool) repeatable(flag, text string, now time.Time) (string, error) {
	at, err := instant(text, now)
	if err != nil {
		return "", usageError("--" + flag + ": " + err.Error())
	}
	if _, err := timer.ParseDuration(text); err == nil {
		t.resolved += " --" + flag + " " + at
	}
	return at, nil
}

// repeatFlags returns the flags with which the same command is done once.
func (t *tool) repeatFlags() string { return " --idempotency-key " + t.key() + t.resolved }
