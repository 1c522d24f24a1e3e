package payload

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	opening = "{{"
	closing = "}}"
	label   = "label."
	// Layout is the format of due.
	Layout = "2006-01-02T15:04:05.000Z07:00"
)

// MaxExpanded is the maximum length in bytes of an expanded text.
const MaxExpanded = 1 << 20

// Values are the values of variables.
type Values struct {
	Fire    timer.FireID
	Attempt int32
	App     string
	Name    string            // name of the timer
	Cause   string            // empty: "schedule"
	Labels  map[string]string // may be nil
	Zone    *time.Location    // nil: UTC
}

// kind is the type of a variable's value.
type kind uint8

const (
	unknown kind = iota
	number       // digits only
	text
	literal // {{open}}
)

var variables = map[string]kind{
	"open":        literal,
	"attempt":     number,
	"due.unix":    number,
	"due.unix_ms": number,
	"timer.id":    number,
	"fire.id":     text,
	"due":         text,
	"due.utc":     text,
	"cause":       text,
	"timer.name":  text,
	"app":         text,
	"zone":        text,
}

func kindOf(name string) kind {
	if strings.HasPrefix(name, label) && len(name) > len(label) {
		return text
	}
	return variables[name]
}

// next finds the first variable of s. before is the text before it, after the text behind it. found
// is false if there is none. The error means that a variable is not closed.
func next(s string) (before, name, after string, found bool, err error) {
	at := strings.Index(s, opening)
	if at < 0 {
		return s, "", "", false, nil
	}
	end := strings.Index(s[at:], closing)
	if end < 0 {
		return s[:at], "", "", true, errors.New(
			`has a "{{" without "}}"; {{open}} is a literal "{{"`,
		)
	}
	return s[:at], strings.TrimSpace(
		s[at+len(opening) : at+end],
	), s[at+end+len(closing):], true, nil
}

// Expand replaces the variables of a checked text. It returns a text without variables unchanged.
func Expand(src string, p Place, v *Values) (string, error) {
	if !strings.Contains(src, opening) {
		return src, nil
	}
	b := make([]byte, 0, len(src)+64)
	var scratch [64]byte
	for rest := src; ; {
		before, name, after, found, err := next(rest)
		b = append(b, before...)
		if err != nil {
			return "", err
		}
		if !found {
			break
		}
		value, known := v.value(scratch[:0], name)
		if !known {
			return "", fmt.Errorf("has an unknown variable %q", name)
		}
		if kindOf(name) == literal && p != URL && p != Form {
			b = append(b, opening...)
		} else if b, err = escape(b, value, p); err != nil {
			return "", err
		}
		if len(b) > MaxExpanded {
			break
		}
		rest = after
	}
	if len(b) > MaxExpanded {
		return "", fmt.Errorf("is longer than %d bytes once its variables are put in", MaxExpanded)
	}
	out := string(b)
	if p == URL && dotSegments(out) > dotSegments(src) {
		return "", errDots
	}
	return out, nil
}

var errDots = errors.New(
	`has a value that makes a part of the path "." or "..", which is a step up`,
)

// dotSegments counts the segments "." and ".." of a URL's path. A server resolves them, and one that
// it has from a value leads to another path. To encode them does not help: "%2E%2E" means the same.
func dotSegments(url string) (n int) {
	if end := strings.IndexAny(url, "?#"); end >= 0 {
		url = url[:end]
	}
	for s := range strings.SplitSeq(url, "/") {
		s, _, _ = strings.Cut(s, ";") // parameters of the segment
		if s == "." || s == ".." {
			n++
		}
	}
	return n
}

// value returns the value of a variable. buf is scratch space for numbers.
func (v *Values) value(buf []byte, name string) (string, bool) {
	due := func() time.Time { return time.UnixMilli(v.Fire.DueMS).UTC() }
	switch name {
	case "open":
		return opening, true
	case "fire.id":
		return v.Fire.String(), true
	case "due":
		return string(due().In(v.zone()).AppendFormat(buf, Layout)), true
	case "due.utc":
		return string(due().AppendFormat(buf, Layout)), true
	case "due.unix":
		return strconv.FormatInt(due().Unix(), 10), true
	case "due.unix_ms":
		return strconv.FormatInt(v.Fire.DueMS, 10), true
	case "attempt":
		return strconv.FormatInt(int64(v.Attempt), 10), true
	case "cause":
		if v.Cause == "" {
			return "schedule", true
		}
		return v.Cause, true
	case "timer.id":
		return v.Fire.Timer.String(), true
	case "timer.name":
		return v.Name, true
	case "app":
		return v.App, true
	case "zone":
		return v.zone().String(), true
	}
	if kindOf(name) == text {
		return v.Labels[strings.TrimPrefix(name, label)], true
	}
	return "", false
}

func (v *Values) zone() *time.Location {
	if v.Zone == nil {
		return time.UTC
	}
	return v.Zone
}
