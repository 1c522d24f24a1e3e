package bench

import (
	"fmt"
	"strings"
)

// Text returns a result for people. ceiling is the bare calls per second of this machine, 0:
// unknown.
func (r *Result) Text(ceiling float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Phase)
	fmt.Fprintf(&b, "  created    %d timers, %.0f/s", r.Timers, r.CreateRate)
	if r.WhileMade {
		b.WriteString(" (the first were due before the last were created)")
	}
	b.WriteByte('\n')
	if r.BytesPer > 0 {
		fmt.Fprintf(&b, "  memory     %.0f bytes per timer, of the processes on this machine\n",
			r.BytesPer)
	}
	for i := range r.Groups {
		r.Groups[i].text(&b, len(r.Groups) > 1, ceiling)
	}
	if len(r.Usage) > 0 {
		b.WriteString("  use        of one CPU; CPU time per fire; resident memory\n")
		for _, u := range r.Usage {
			fmt.Fprintf(&b, "  %8s   %-20s %6.1f %%  %7.1f µs  %6.0f MB\n",
				"", u.Name, u.CPUPercent, u.USPerFire, u.MemoryMB)
		}
	}
	return b.String()
}

func (g *GroupResult) text(b *strings.Builder, named bool, ceiling float64) {
	if named {
		fmt.Fprintf(b, "  %s\n", g.Name)
	}
	fmt.Fprintf(b, "  fires      %d due, %d missing, %d early, %d repeated\n",
		g.Fires, g.Missing, g.Early, g.Repeated)
	if g.Received == 0 {
		return
	}
	fmt.Fprintf(b, "  speed      %.0f/s, the last call %.1f s after the first instant",
		g.PerSecond, g.LastArrival)
	if ceiling > 0 {
		fmt.Fprintf(b, "; %.0f %% of %.0f bare calls/s", 100*g.PerSecond/ceiling, ceiling)
	}
	q := &g.Lateness
	fmt.Fprintf(b, "\n  lateness   p50 %s, p90 %s, p99 %s, p99.9 %s, max %s\n",
		duration(q.P50), duration(q.P90), duration(q.P99), duration(q.P999), duration(q.Max))
	fmt.Fprintf(b, "  received   p50 %s, p99 %s, max %s after the instant\n",
		duration(g.AtReceiver.P50), duration(g.AtReceiver.P99), duration(g.AtReceiver.Max))
	b.WriteString(drawHistogram(g.Histogram))
}
