package load

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParsePhases parses "rate:6000:30s,cron:2000:20s,burst:100000,stored:1000000,kill:100:20s".
func ParsePhases(text string) ([]Phase, error) {
	var phases []Phase
	for part := range strings.SplitSeq(text, ",") {
		f := strings.Split(strings.TrimSpace(part), ":")
		p := Phase{Kind: Kind(f[0])}
		bad := fmt.Errorf(
			"invalid phase %q: want rate:<fires per second>:<duration>, cron:<timers>:<duration>, burst:<fires>, "+
				"stored:<timers> or kill:<fires per second>:<duration>",
			part,
		)
		switch {
		case (p.Kind == Burst || p.Kind == Stored) && len(f) == 2:
		case (p.Kind == Steady || p.Kind == Crons || p.Kind == Kill) && len(f) == 3:
			d, err := time.ParseDuration(f[2])
			if err != nil || d < time.Second {
				return nil, bad
			}
			p.Length = d
		default:
			return nil, bad
		}
		n, err := strconv.Atoi(f[1])
		if err != nil || n < 1 {
			return nil, bad
		}
		p.Rate = n
		phases = append(phases, p)
	}
	return phases, nil
}
