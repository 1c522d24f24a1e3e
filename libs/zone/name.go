package zone

import (
	"fmt"
	"strings"
)

// unknown returns why a name cannot be an IANA zone in any database, or "" if it may be one.
func unknown(name string) string {
	first, rest, below := strings.Cut(name, "/")
	switch {
	case below && first == "right":
		return "zones below right/ count leap seconds" + instead(rest)
	case below && (first == "posix" || first == "SystemV"):
		return "zones below " + first + "/ depend on the host" + instead(rest)
	case strings.EqualFold(name, "Local"),
		strings.EqualFold(name, "localtime"),
		strings.EqualFold(name, "posixrules"):
		return "it depends on the host, name a fixed zone"
	case name == "Factory":
		return "it stands for a clock that was never set, name a real zone"
	}
	return ""
}

func instead(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(", use %q", clip(name))
}

// unknown returns the error for a name that is not in the database.
func (d *Database) unknown(name string) error {
	why := "tzdata " + d.version + " has no such zone"
	if exact, ok := d.folded[strings.ToLower(name)]; ok {
		why = fmt.Sprintf("names are matched by case, use %q", exact)
	} else if s := unknown(name); s != "" {
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
