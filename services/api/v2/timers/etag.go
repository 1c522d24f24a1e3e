package timers

import (
	"errors"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/timer"
)

// ifVersion is the field of errors about a version that is not the timer's.
const ifVersion = "if_version"

// IfMatchParam makes a write depend on the version of the timer's definition, which is its ETag. A
// pause or a status is no part of the definition, so it changes no ETag.
type IfMatchParam struct {
	IfMatch string `header:"If-Match" doc:"Only if this is the timer's ETag: its version in quotes; else 412. * is any version of a timer that exists."`
}

// etag returns the ETag of a version.
func etag(version int32) string { return strconv.Quote(strconv.Itoa(int(version))) }

// anyVersion reports whether the timer must exist, in whatever version.
func (p *IfMatchParam) anyVersion() bool { return p.IfMatch == "*" }

// version returns the version that the timer must have; 0 is any. A tag that is no version is -1,
// which matches none.
func (p *IfMatchParam) version() int32 {
	if p.IfMatch == "" || p.anyVersion() {
		return 0
	}
	text, ok := strings.CutPrefix(p.IfMatch, `"`)
	text, ok2 := strings.CutSuffix(text, `"`)
	n, err := strconv.ParseInt(text, 10, 32)
	if !ok || !ok2 || err != nil || n < 1 {
		return -1
	}
	return int32(n)
}

// precondition makes a conflict of versions a 412, if the request has an If-Match.
func (p *IfMatchParam) precondition(err error) error {
	e, ok := errors.AsType[*timer.Error](err)
	if p.IfMatch == "" || !ok || e.Code != timer.CodeConflict || e.Field != ifVersion {
		return err
	}
	return huma.Error412PreconditionFailed("If-Match: " + e.Msg)
}

// errExists is the answer to If-None-Match: * if the timer exists.
func errExists() error {
	return huma.Error412PreconditionFailed("If-None-Match: a timer of this name exists")
}
