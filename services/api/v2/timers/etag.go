package timers

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// ifVersion is the field of errors about a version that is not the timer's.
const ifVersion = "if_version"

// IfMatchParam makes a write depend on the version of the timer's definition, which is its ETag. A
// pause or a status is no part of the definition, so it changes no ETag.
type IfMatchParam struct {
	IfMatch string `header:"If-Match" doc:"Only if this is the timer's ETag, its version in quotes, or a list that has it; else 412. * is any version of a timer that exists."`
}

// etag returns the ETag of a version.
func etag(version int32) string { return strconv.Quote(strconv.Itoa(int(version))) }

// condition is what a request says about the timer and the version that must be present.
type condition struct {
	given    bool     // in a header or a parameter; else in the body, or nowhere
	id       timer.ID // of the timer that has the name; 0: any
	any      bool     // of a timer that exists
	versions []int32  // of which one must be present, unless any
	weak     bool     // a weak ETag was among the tags
}

// condition combines If-Match with the field if_version of a body; 0 is none. Both must hold.
func (p *IfMatchParam) condition(version int32) (condition, error) {
	c, err := parseIfMatch(p.IfMatch)
	switch {
	case err != nil || version == 0:
		return c, err
	case !c.matches(version):
		return c, timer.Invalid(ifVersion, fmt.Sprintf(
			"expected a version that If-Match has, found %d: give one of the two", version))
	}
	c.any, c.versions = false, []int32{version}
	return c, nil
}

// parseIfMatch parses the header. ETags compare strongly, so a weak one matches none. Neither does
// a tag that is no version.
func parseIfMatch(text string) (c condition, err error) {
	rest := strings.Trim(text, " \t")
	c.given = rest != ""
	if c.any = rest == "" || rest == "*"; c.any {
		return c, nil
	}
	for rest = strings.TrimLeft(rest, ", \t"); rest != ""; rest = strings.TrimLeft(rest, ", \t") {
		tag, weak := strings.CutPrefix(rest, "W/")
		tag, quoted := strings.CutPrefix(tag, `"`)
		tag, after, ended := strings.Cut(tag, `"`)
		after = strings.TrimLeft(after, " \t")
		if !quoted || !ended || after != "" && after[0] != ',' {
			return c, timer.Invalid("header.If-Match", fmt.Sprintf(
				`expected ETags in double quotes, such as "2", or *, found %s: quote each`,
				input.Clip(text)))
		}
		n, err := strconv.ParseInt(tag, 10, 32)
		if c.weak = c.weak || weak; err == nil && n > 0 && !weak {
			c.versions = append(c.versions, int32(n))
		}
		rest = after
	}
	return c, nil
}

// matches reports whether a present version satisfies the condition.
func (c *condition) matches(version int32) bool {
	return c.any || slices.Contains(c.versions, version)
}

// version returns the version that the store must find when it writes; 0 is any, and -1 matches
// none. Of several versions it is the present one, which read returns. If another request changes
// it before the store writes, the condition fails, also where the new version is among them.
func (c *condition) version(read func() (timer.Timer, error)) (int32, error) {
	switch {
	case c.any:
		return 0, nil
	case len(c.versions) == 0:
		return -1, nil
	case len(c.versions) == 1:
		return c.versions[0], nil
	}
	t, err := read()
	if err == nil && c.matches(t.Version) {
		return t.Version, nil
	}
	return -1, err
}

// isVersionConflict reports whether a write was refused because the timer has another version. Other
// conflicts stay whatever version is read.
func isVersionConflict(err error) bool {
	e, ok := errors.AsType[*timer.Error](err)
	return ok && e.Code == timer.CodeConflict && (e.Field == ifVersion || e.Field == "version")
}

// failure makes a conflict of versions a 412, if the request has an If-Match. The store refuses an
// edit that came second by the field version.
func (c *condition) failure(err error) error {
	e, ok := errors.AsType[*timer.Error](err)
	if !ok || !isVersionConflict(err) {
		return err
	}
	msg := e.Msg
	if e.Field != ifVersion {
		msg = "expected the version of the timer, found another, as it was changed meanwhile: " +
			"read the timer again"
	}
	if !c.given {
		return timer.Conflict(ifVersion, msg)
	}
	msg = "If-Match: " + msg
	if c.weak {
		msg += `; a weak ETag (W/"…") matches none: leave W/ out`
	}
	return huma.Error412PreconditionFailed(msg)
}

// ifID returns an error unless a timer is the one that the condition names. Versions of another timer
// of the same name, which was created after a deletion, begin at 1 again.
func (c *condition) ifID(t *timer.Timer) error {
	if c.id == 0 || c.id == t.ID {
		return nil
	}
	return huma.Error412PreconditionFailed(fmt.Sprintf(
		"if_id: expected the id of the timer of this name, which is %s, found another: read the timer again",
		t.ID,
	))
}

// errMissing is the answer to a condition if there is no timer.
func (c *condition) errMissing() error {
	const missing = "there is no timer of this name"
	if c.id != 0 {
		return huma.Error412PreconditionFailed("if_id: " + missing)
	}
	return timer.Conflict(ifVersion, missing)
}

// errExists is the answer to If-None-Match: * if the timer exists.
func errExists() error {
	return huma.Error412PreconditionFailed("If-None-Match: a timer of this name exists")
}
