package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

// overload gives the deployment three times what it can run for two minutes: crons that are due in
// each second of two given minutes.
func overload(w *Environment) error {
	rate := 3 * w.opts.Capacity
	// they have to be made before.
	from := time.Now().
		Add(time.Duration(rate/100) * time.Second).
		Truncate(time.Minute).
		Add(time.Minute)
	if err := w.traffic.burst(w.ctx, rate, from, 2); err != nil {
		return err
	}
	clock.Pause(w.ctx, time.Until(from))
	return w.befall(
		fmt.Sprintf("%d fires/s, three times what can run", rate),
		none,
		func(f *Fault) (string, error) {
			var behind []int
			for range 12 {
				clock.Pause(w.ctx, 10*time.Second)
				n, err := w.open(time.Now())
				if err != nil {
					return "", err
				}
				behind = append(behind, n)
				w.printf("  %d open fires are past due", n)
			}
			f.over()
			most := slices.Max(behind)
			if most < w.opts.Capacity*10 {
				return "", fmt.Errorf(
					"never were more than %d fires past due: that was no overload",
					most,
				)
			}
			return fmt.Sprintf("up to %d open fires past due", most), nil
		},
	)
}
