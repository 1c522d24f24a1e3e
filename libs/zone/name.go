package zone

import (
	"fmt"
	"strings"
)

// foreign returns why a name is no IANA zone's, whatever files there are; "" where it may be one.
func foreign(name string) string {
	first, rest, below := strings.Cut(name, "/")
	switch {
	case below && first == "right":
		return "zones below right/ count leap seconds" + instead(rest)
	case below && (first == "posix" || first == "SystemV"):
		return "zones below " + first + "/ depend on the host" + instead(rest)
	case strings.EqualFold(name, "Local"),
		strings.EqualFold(name, "localtime"),
		strings.EqualFold(name, "posixrules"):
		return "that is another zone on each host, name the one that is meant"
	case name == "Factory":
		return "that stands for a clock that was never set, name the zone that is meant"
	}
	return ""
}

func instead(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(", use %q", clip(name))
}

// unknown is the error of a name that the database does not have.
func (d *Database) unknown(name string) error {
	why := "tzdata " + d.version + " has no such zone"
	if exact, ok := d.folded[strings.ToLower(name)]; ok {
		why = fmt.Sprintf("names are matched by case, use %q", exact)
	} else if s := foreign(name); s != "" {
		why = s
	}
	return fmt.Errorf(
		`expected an IANA time zone such as "Europe/Berlin", found %q: %s`,
		clip(name),
		why,
	)
}

const maxShown = 64

func clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
