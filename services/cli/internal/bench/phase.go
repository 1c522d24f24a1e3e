package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a phase.
type Kind string

// The kinds of phases.
const (
	Rate   Kind = "rate"   // N one-shots per second, evenly spread, for Length
	Burst  Kind = "burst"  // N one-shots at one instant
	Cron   Kind = "cron"   // N crons, each due every second, for Length
	Minute Kind = "minute" // N crons due at one full minute, beside Beside one-shots per second
	Long   Kind = "long"   // N one-shots that are due in a year: only their creation is measured
)

// Phase is one measurement.
type Phase struct {
	Kind   Kind
	N      int
	Beside int
	Length time.Duration
}

// Grammar describes the phases, for a help text.
const Grammar = `  rate:N:DURATION   N one-shots per second, evenly spread
  burst:N           N one-shots at one instant
  cron:N:DURATION   N crons, each due every second
  minute:N[:M]      N crons due at one full minute, beside M one-shots per second
  long:N            N one-shots due in a year: only their creation is measured`

const (
	minLength   = time.Second
	minuteRange = 40 * time.Second // of the one-shots beside crons on the minute
	minuteLead  = 10 * time.Second // of them, before the minute
	longDelay   = 365 * 24 * time.Hour
)

// ParsePhase parses a phase such as rate:1000:30s.
func ParsePhase(text string) (Phase, error) {
	f := strings.Split(text, ":")
	p := Phase{Kind: Kind(f[0])}
	bad := fmt.Errorf("phase %q: expected one of\n%s", text, Grammar)
	var fields int // after the number of timers
	switch p.Kind {
	case Rate, Cron:
		fields = 1
	case Minute:
		fields = min(1, max(0, len(f)-2)) //nolint:mnd // kind and number
	case Burst, Long:
	default:
		return p, bad
	}
	if len(f) != 2+fields {
		return p, bad
	}
	var err error
	if p.N, err = strconv.Atoi(f[1]); err != nil || p.N < 1 {
		return p, bad
	}
	switch {
	case p.Kind == Minute:
		p.Length = minuteRange
		if fields == 1 {
			p.Beside, err = strconv.Atoi(f[2])
		}
	case fields == 1:
		p.Length, err = time.ParseDuration(f[2])
		if p.Length < minLength {
			return p, bad
		}
	}
	if err != nil || p.Beside < 0 {
		return p, bad
	}
	return p, nil
}

// String returns the phase in a few words.
func (p Phase) String() string {
	switch p.Kind {
	case Rate:
		return fmt.Sprintf("%d/s for %s", p.N, p.Length)
	case Burst:
		return fmt.Sprintf("%d at one instant", p.N)
	case Cron:
		return fmt.Sprintf("%d crons each second for %s", p.N, p.Length)
	case Minute:
		return fmt.Sprintf("%d crons on the minute beside %d/s", p.N, p.Beside)
	case Long:
		return fmt.Sprintf("%d one-shots due in a year", p.N)
	default:
		return string(p.Kind)
	}
}

// group is some timers of a phase with the same kind of schedule.
type group struct {
	name  string
	n     int
	spec  string                // of crons; empty: one-shots
	due   func(i int) time.Time // of one-shots
	from  time.Time             // of crons: the first instant that counts
	until time.Time             // of crons: the end of what counts, excluded
	step  time.Duration         // of crons
}

// fires returns how many fires of each timer count.
func (g *group) fires() int {
	if g.spec == "" {
		return 1
	}
	return int((g.until.Sub(g.from) + g.step - 1) / g.step)
}

// firstDue returns the first instant at which a phase may begin, no earlier than at.
func (p Phase) firstDue(at time.Time) time.Time {
	if p.Kind != Minute {
		return at.Truncate(time.Second).Add(time.Second)
	}
	full := at.Add(minuteLead).Truncate(time.Minute).Add(time.Minute)
	return full.Add(-minuteLead)
}

// groups returns the timers of a phase whose first instant is first.
func (p Phase) groups(first time.Time) []group {
	spread := func(rate int) func(int) time.Time {
		return func(i int) time.Time {
			return first.Add(time.Duration(i) * time.Second / time.Duration(rate)).
				Truncate(time.Millisecond)
		}
	}
	seconds := p.Length.Seconds()
	switch p.Kind {
	case Rate:
		return []group{{name: "rate", n: int(float64(p.N) * seconds), due: spread(p.N)}}
	case Burst:
		return []group{{name: "burst", n: p.N, due: func(int) time.Time { return first }}}
	case Cron:
		return []group{{
			name: "cron", n: p.N, spec: "* * * * * *",
			from: first, until: first.Add(p.Length), step: time.Second,
		}}
	case Minute:
		full := first.Add(minuteLead)
		all := []group{{
			name: "minute", n: p.N, spec: "* * * * *",
			from: full, until: full.Add(time.Second), step: time.Minute,
		}}
		if p.Beside > 0 {
			all = append(all, group{
				name: "beside", n: int(float64(p.Beside) * seconds), due: spread(p.Beside),
			})
		}
		return all
	case Long:
		return []group{{
			name: "long", n: p.N, due: func(int) time.Time { return first.Add(longDelay) },
		}}
	default:
		return nil
	}
}
