package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

// overload gives the deployment three times its capacity for two minutes, by crons that are due in
// each second of two minutes.
func overload(env *Environment) error {
	rate := 3 * env.opts.Capacity
	// the crons must exist before then
	from := time.Now().
		Add(time.Duration(rate/100) * time.Second).
		Truncate(time.Minute).
		Add(time.Minute)
	if err := env.traffic.burst(env.ctx, rate, from, 2); err != nil {
		return err
	}
	clock.Pause(env.ctx, time.Until(from))
	return env.inject(
		fmt.Sprintf("%d fires/s, three times the capacity", rate),
		noTarget,
		func(f *Fault) (string, error) {
			var behind []int
			for range 12 {
				clock.Pause(env.ctx, 10*time.Second)
				n, err := env.openFires(time.Now())
				if err != nil {
					return "", err
				}
				behind = append(behind, n)
				env.printf("  %d open fires are past due", n)
			}
			f.markEnd()
			most := slices.Max(behind)
			if most < env.opts.Capacity*10 {
				return "", fmt.Errorf(
					"at most %d fires were past due: no overload",
					most,
				)
			}
			return fmt.Sprintf("up to %d open fires past due", most), nil
		},
	)
}
