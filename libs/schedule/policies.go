package schedule

import (
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// CheckPolicies validates the misfire and concurrency policies of a definition. Its error is a
// *timer.Error (invalid) that names the field ("misfire.policy", "concurrency.max_queue", …).
func CheckPolicies(d *timer.Definition) error {
	if err := checkMisfire(&d.Misfire); err != nil {
		return err
	}
	c := &d.Concurrency
	if err := oneOf(
		"concurrency.policy",
		c.Policy,
		timer.ConcurrencyAllow,
		timer.ConcurrencySkip,
		timer.ConcurrencyQueueOne,
		timer.ConcurrencyQueueAll,
		timer.ConcurrencyCancelPrevious,
	); err != nil {
		return err
	}
	switch {
	case c.MaxQueue != 0 && c.Policy != timer.ConcurrencyQueueAll:
		return timer.Invalid(
			"concurrency.max_queue",
			fmt.Sprintf(
				`expected nothing without policy "queue_all", found %d: leave it out`,
				c.MaxQueue,
			),
		)
	case c.MaxQueue < 0 || c.MaxQueue > timer.MaxMaxQueue:
		return timer.Invalid(
			"concurrency.max_queue",
			fmt.Sprintf(
				"expected a number from 1 to %d, or 0 for %d, found %d",
				timer.MaxMaxQueue,
				timer.DefaultMaxQueue,
				c.MaxQueue,
			),
		)
	}
	return nil
}

func checkMisfire(m *timer.Misfire) error {
	var policies []timer.MisfirePolicy
	for _, p := range timer.MisfirePolicies() {
		policies = append(policies, p.Policy)
	}
	if err := oneOf("misfire.policy", m.Policy, policies...); err != nil {
		return err
	}
	for _, f := range []struct {
		name     string
		got, max timer.Duration
	}{{"grace", m.Grace, timer.MaxGrace}, {"catch_up_window", m.CatchUpWindow, timer.MaxCatchUpWindow}} {
		if f.got < 0 || f.got > f.max {
			return timer.Invalid(
				"misfire."+f.name,
				fmt.Sprintf(
					"expected a duration from 0s to %s, found %s",
					time.Duration(f.max),
					time.Duration(f.got),
				),
			)
		}
	}
	switch {
	case m.MaxFires != 0 && m.Policy != timer.MisfireFireAll:
		return timer.Invalid(
			"misfire.max_fires",
			fmt.Sprintf(
				`expected nothing without policy "fire_all", found %d: leave it out`,
				m.MaxFires,
			),
		)
	case m.MaxFires < 0 || m.MaxFires > timer.MaxMisfireFires:
		return timer.Invalid(
			"misfire.max_fires",
			fmt.Sprintf(
				"expected a number from 1 to %d, or 0 for %d, found %d",
				timer.MaxMisfireFires,
				timer.DefaultMisfireFires,
				m.MaxFires,
			),
		)
	}
	return nil
}
