package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/e2e/receiver"
)

// Result is the result of a phase.
type Result struct {
	Runner     string  `json:"runner"`
	Phase      string  `json:"phase"`
	Fires      int     `json:"fires"`
	CreateRate float64 `json:"creates_per_second"`
	// Timers were still being created when the first were due.
	Overlap     bool    `json:"creates_overlapped"`
	RateAsked   float64 `json:"rate_asked"` // 0 for a burst
	RateReached float64 `json:"rate_reached"`
	// From the first due instant to the last arrival.
	Drained    time.Duration      `json:"drained_ns"`
	Lateness   receiver.Quantiles `json:"lateness"` // callback start by the executor's clock
	AtReceiver receiver.Quantiles `json:"lateness_at_receiver"`
	Early      int                `json:"early"`
	Duplicates int                `json:"duplicates"`
	Missing    int                `json:"missing"`
	Faults     []string           `json:"faults"`
	Samples    []Sample           `json:"samples"`
	CPUs       []CPU              `json:"cpu"`
	PerFire    []PerFire          `json:"per_fire"`
	Busy       float64            `json:"machine_busy_percent"`
	// Resident is the memory of each process at the end, in bytes.
	Resident map[string]int64 `json:"resident_bytes"`
	// Killed is when all processes were killed, and Again how long after it the first call came.
	Killed time.Time     `json:"killed,omitzero"`
	Again  time.Duration `json:"calls_again_ns,omitempty"`
	died   time.Duration // from the kill to the end of the last process
}

const mb = 1 << 20

// OK reports whether no fire was early, repeated or missing.
func (r *Result) OK() bool { return r.Early+r.Duplicates+r.Missing == 0 }

// Backlog returns the greatest and the last number of callbacks without record.
func (r *Result) Backlog() (most, last int64) {
	for _, s := range r.Samples {
		most, last = max(most, s.Backlog()), s.Backlog()
	}
	return most, last
}

func (r *Result) cpu(before, after map[string]time.Duration, wall time.Duration, fires int64) {
	for name, t := range after {
		used := t - before[name]
		switch name {
		case "idle":
		case "machine":
			if idle := after["idle"] - before["idle"]; used+idle > 0 {
				r.Busy = 100 * float64(used) / float64(used+idle)
			}
		default:
			c := CPU{
				Name:    name,
				Percent: 100 * used.Seconds() / wall.Seconds(),
				PerFire: float64(used.Microseconds()) / float64(max(fires, 1)),
			}
			if c.Percent >= 1 {
				r.CPUs = append(r.CPUs, c)
			}
		}
	}
	slices.SortFunc(r.CPUs, func(a, b CPU) int { return cmp.Compare(b.Percent, a.Percent) })
}

// Markdown returns a table of the results, with the CPU time below it.
func Markdown(rs []Result) string {
	var b strings.Builder
	b.WriteString(
		"| runner | phase | fires | asked/s | reached/s | drained | p50 | p99 | p99.9 | max | p99 at receiver | early | dup | missing | unrecorded, most | unrecorded, end | creates/s | busy |\n",
	)
	b.WriteString("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for i := range rs {
		r := &rs[i]
		most, last := r.Backlog()
		phase := r.Phase
		if r.Overlap {
			phase += " (while creating)"
		}
		fmt.Fprintf(
			&b,
			"| %s | %s | %d | %.0f | %.0f | %.1f s | %s | %s | %s | %s | %s | %d | %d | %d | %d | %d | %.0f | %.0f %% |\n",
			r.Runner,
			phase,
			r.Fires,
			r.RateAsked,
			r.RateReached,
			r.Drained.Seconds(),
			ms(r.Lateness, r.Lateness.P50),
			ms(
				r.Lateness,
				r.Lateness.P99,
			),
			ms(r.Lateness, r.Lateness.P999),
			ms(r.Lateness, r.Lateness.Max),
			ms(r.AtReceiver, r.AtReceiver.P99),
			r.Early,
			r.Duplicates,
			r.Missing,
			most,
			last,
			r.CreateRate,
			r.Busy,
		)
	}
	b.WriteString("\nCPU time (percent of one CPU; per fire):\n\n")
	for i := range rs {
		texts := make([]string, len(rs[i].CPUs))
		for j, c := range rs[i].CPUs {
			texts[j] = c.String()
		}
		fmt.Fprintf(&b, "- %s, %s: %s\n", rs[i].Runner, rs[i].Phase, strings.Join(texts, ", "))
	}
	b.WriteString("\nMemory at the end:\n\n")
	for i := range rs {
		texts := make([]string, 0, len(rs[i].Resident))
		for _, name := range slices.Sorted(maps.Keys(rs[i].Resident)) {
			texts = append(texts, fmt.Sprintf("%s %d MB", name, rs[i].Resident[name]/mb))
		}
		fmt.Fprintf(&b, "- %s, %s: %s\n", rs[i].Runner, rs[i].Phase, strings.Join(texts, ", "))
		if rs[i].Again > 0 {
			fmt.Fprintf(&b, "- %s, %s: the first call came %.1f s after SIGKILL\n",
				rs[i].Runner, rs[i].Phase, rs[i].Again.Seconds())
		}
	}
	b.WriteString("\nFor each fire:\n\n")
	for i := range rs {
		texts := make([]string, len(rs[i].PerFire))
		for j, p := range rs[i].PerFire {
			texts[j] = p.String()
		}
		fmt.Fprintf(&b, "- %s, %s: %s\n", rs[i].Runner, rs[i].Phase, strings.Join(texts, ", "))
	}
	for i := range rs {
		for _, f := range rs[i].Faults {
			fmt.Fprintf(&b, "\n**%s, %s: %s**\n", rs[i].Runner, rs[i].Phase, f)
		}
	}
	return b.String()
}

// ms formats a duration of the set. Callbacks carry their start in milliseconds.
func ms(of receiver.Quantiles, d time.Duration) string {
	switch {
	case of.N == 0:
		return "–"
	case d < time.Millisecond:
		return "< 1 ms"
	}
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}
