package pulsarbus

import (
	"fmt"

	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/rs/zerolog"
)

// logger forwards the client's log to ours at lower levels: errors and warnings become debug, the
// rest trace. The client logs every reconnect as an error, and the bus logs what matters itself.
type logger struct{ log zerolog.Logger }

func newLogger(l zerolog.Logger) pulsarlog.Logger {
	return logger{log: l.With().Str("client", "pulsar").Logger()}
}

func (l logger) SubLogger(fields pulsarlog.Fields) pulsarlog.Logger { return l.with(fields) }
func (l logger) WithFields(fields pulsarlog.Fields) pulsarlog.Entry { return l.with(fields) }
func (l logger) WithField(k string, v any) pulsarlog.Entry {
	return l.with(pulsarlog.Fields{k: v})
}

func (l logger) WithError(err error) pulsarlog.Entry {
	if l.discards() {
		return l
	}
	return logger{log: l.log.With().Err(err).Logger()}
}

func (l logger) with(fields pulsarlog.Fields) logger {
	if l.discards() {
		return l
	}
	return logger{log: l.log.With().Fields(map[string]any(fields)).Logger()}
}

// discards reports whether nothing would be written. The client adds fields for every message it
// sends, and that must cost nothing.
func (l logger) discards() bool { return l.log.GetLevel() > zerolog.DebugLevel }

func (l logger) Debug(args ...any)                 { write(l.log.Trace(), args) }
func (l logger) Info(args ...any)                  { write(l.log.Trace(), args) }
func (l logger) Warn(args ...any)                  { write(l.log.Debug(), args) }
func (l logger) Error(args ...any)                 { write(l.log.Debug(), args) }
func (l logger) Debugf(format string, args ...any) { l.log.Trace().Msgf(format, args...) }
func (l logger) Infof(format string, args ...any)  { l.log.Trace().Msgf(format, args...) }
func (l logger) Warnf(format string, args ...any)  { l.log.Debug().Msgf(format, args...) }
func (l logger) Errorf(format string, args ...any) { l.log.Debug().Msgf(format, args...) }

func write(e *zerolog.Event, args []any) {
	if e.Enabled() {
		e.Msg(fmt.Sprint(args...))
	}
}
