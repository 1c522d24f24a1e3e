package peers

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/e2e/load"
)

// held returns whether a system kept up with a rate: it made all calls, and the last of them came
// within 5 % of the time in which they were due.
func held(r *load.Result) bool {
	return r.Missing == 0 && r.RateReached >= 0.95*r.RateAsked
}

// Table returns a Markdown table of what each system did at each rate, in the order of the results.
func Table(rs []load.Result) string {
	var b strings.Builder
	b.WriteString("| system | asked | done | held | p50 | p99 | max | early | missing | " +
		"CPU per call |\n|---|--:|--:|---|--:|--:|--:|--:|--:|--:|\n")
	for i := range rs {
		r := &rs[i]
		yes := "no"
		if held(r) {
			yes = "yes"
		}
		fmt.Fprintf(&b, "| %s | %.0f/s | %.0f/s | %s | %s | %s | %s | %d | %d | %.0f µs |\n",
			r.Runner, r.RateAsked, r.RateReached, yes, short(r.Lateness.P50),
			short(r.Lateness.P99), short(r.Lateness.Max), r.Early, r.Missing, perFire(r))
	}
	return b.String()
}

// perFire is the CPU time of a call in µs: of the system and its servers, without load and
// receiver.
func perFire(r *load.Result) (us float64) {
	for _, c := range r.CPUs {
		if c.Name != load.Self {
			us += c.PerFire
		}
	}
	return us
}

func short(d time.Duration) string {
	if d < time.Second && d > -time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
