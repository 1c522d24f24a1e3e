// Package logging creates the logger that every program passes to its parts: JSON, one object per
// line, for machines; coloured text on a terminal. Messages are constant phrases, and data goes
// into fields. The names of fields that several packages use are here.
package logging

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// Names of fields.
const (
	Addr       = "addr"     // address of a listener
	App        = "app"      // name of an app
	Attempt    = "attempt"  // from 1
	Bucket     = "bucket"   // bucket of a minute
	Check      = "check"    // a readiness check
	Count      = "count"    // number of things that the line is about
	Detail     = "detail"   // text of other code
	Cursor     = "cursor"   // first minute that is not done
	Due        = "due"      // due instant of a fire
	Duration   = "duration" // duration of what the line is about
	Fire       = "fire_id"
	Generation = "generation" // generation of a slice in the window
	Lateness   = "lateness"   // start of the callback minus planned instant
	LeftNode   = "left"       // address of the server's node that is not used any more
	Minute     = "minute"     // minutes since 1970
	Node       = "node"       // address of the server's node that is used now
	Outcome    = "outcome"    // outcome of a fire
	Part       = "part"       // part of the process
	Reason     = "reason"
	Request    = "request_id"
	Server     = "server"  // mysql, redis, pulsar
	Service    = "service" // api, migrator, …
	Session    = "session"
	StatusCode = "status_code" // HTTP status
	Timer      = "timer_id"
	TimerName  = "timer"
	Token      = "token" // fencing token of a slice's lease
	Topic      = "topic"
	TraceID    = "trace_id" // of the trace that the line belongs to, in hex
	Version    = "version"
)

// Phrases of listeners. Scripts and tests search for them, with the field Addr.
const (
	HTTPListening  = "http listening"
	AdminListening = "admin listening"
)

// Phrases about the nodes of a server, with the fields LeftNode, Node and Reason.
const (
	NodeChanged   = "another MySQL node is used"
	NodePreferred = "the preferred MySQL node is used again"
)

// A fire is skipped: executors and schedulers log at most SkipLines of these in a second.
const (
	FireSkipped = "fire skipped"
	SkipLines   = 20
)

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// New returns a logger that writes lines of at least the given level (debug, info, warn, error) to
// w. format is json, pretty, or auto: pretty if w is a terminal.
func New(w io.Writer, level, format, service string) (zerolog.Logger, error) {
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), fmt.Errorf("reading the log level: %w", err)
	}
	if format == "pretty" || format == "auto" && IsTerminal(w) {
		w = zerolog.ConsoleWriter{
			Out:          w,
			TimeFormat:   "15:04:05.000",
			TimeLocation: time.Local,
			NoColor:      !IsTerminal(w),
		}
	}
	return zerolog.New(w).Level(l).Hook(stamp{}).With().Str(Service, service).Logger(), nil
}

// stamp adds the time in milliseconds. zerolog's own timestamp has a package-wide format, which a
// library must not set.
type stamp struct{}

// Run adds the time to one line.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format(timeFormat))
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
