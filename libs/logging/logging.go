// Package logging makes the logger that every program passes to its parts: JSON, one object per
// line, for machines; coloured text on a terminal. Messages are fixed phrases, data goes into
// fields, and fields that several packages write have their names here.
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
	Addr       = "addr"     // where something listens
	App        = "app"      // an app's name
	Attempt    = "attempt"  // from 1
	Bucket     = "bucket"   // of a minute
	Check      = "check"    // a readiness check
	Count      = "count"    // how many things the line is about
	Detail     = "detail"   // what somebody else's code says
	Cursor     = "cursor"   // the first minute that is not done
	Due        = "due"      // nominal instant of a fire
	Duration   = "duration" // of what the line is about
	Fire       = "fire_id"
	Generation = "generation" // of a slice in the window
	Lateness   = "lateness"   // start of the callback minus planned instant
	Minute     = "minute"     // since 1970
	Outcome    = "outcome"    // of a fire
	Part       = "part"       // of the process
	Reason     = "reason"
	Request    = "request_id"
	Server     = "server"  // mysql, redis, pulsar
	Service    = "service" // api, migrator, …
	Session    = "session"
	StatusCode = "status_code" // of HTTP
	Timer      = "timer_id"
	Token      = "token" // fencing token of a slice's lease
	Topic      = "topic"
	Version    = "version"
)

// Listening phrases: scripts and tests look for them, with the field Addr.
const (
	HTTPListening  = "http listening"
	AdminListening = "admin listening"
)

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// New returns a logger that writes lines of at least the level (debug, info, warn, error) to w.
// format is json, pretty, or auto: pretty where w is a terminal.
func New(w io.Writer, level, format, service string) (zerolog.Logger, error) {
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), fmt.Errorf("reading the log level: %w", err)
	}
	if format == "pretty" || format == "auto" && isTerminal(w) {
		w = zerolog.ConsoleWriter{
			Out:          w,
			TimeFormat:   "15:04:05.000",
			TimeLocation: time.Local,
			NoColor:      !isTerminal(w),
		}
	}
	return zerolog.New(w).Level(l).Hook(stamp{}).With().Str(Service, service).Logger(), nil
}

// stamp adds the time in milliseconds. zerolog's own stamp has a package-wide format, which a
// library shall not set.
type stamp struct{}

// Run adds the time to one line.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format(timeFormat))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
