package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// MaxDelay is the longest delay and the longest interval: ten years. Longer ones are probably
// typing errors.
const MaxDelay = 10 * 365 * 24 * time.Hour

// Check validates a schedule. Its error is a *timer.Error (invalid) that names the field. The
// caller must check that the named calendars exist.
func Check(s *timer.Schedule) error {
	p, err := parse(s, Inputs{})
	if err != nil {
		return err
	}
	for i, d := range p.parts {
		if d.next(-1, 0) == timer.NeverMS {
			return timer.Invalid(
				specField(i),
				fmt.Sprintf(
					"at 0: expected a day that exists, found %q, which never matches from %d to %d",
					s.Specs[i],
					minYear,
					maxYear,
				),
			)
		}
	}
	return nil
}

// checkFields checks everything except the specs and the zone.
func checkFields(s *timer.Schedule) error {
	if err := checkKind(s); err != nil {
		return err
	}
	switch s.Kind {
	case timer.KindAt:
		if s.At == nil {
			return timer.Invalid(
				"schedule.at",
				`expected an instant such as "2030-01-31T09:00:00Z", found nothing`,
			)
		}
	case timer.KindDelay:
		if err := checkDelay(s.Delay); err != nil {
			return err
		}
	case timer.KindInterval, timer.KindFixedDelay:
		if err := checkEvery(s); err != nil {
			return err
		}
	case timer.KindCron:
		if err := checkSpecs(s); err != nil {
			return err
		}
	}
	if err := checkInstants(s); err != nil {
		return err
	}
	return checkCalendars(s)
}

var kinds = []timer.ScheduleKind{
	timer.KindCron,
	timer.KindInterval,
	timer.KindFixedDelay,
	timer.KindAt,
	timer.KindDelay,
}

// checkKind rejects fields that do not belong to the schedule's kind, because they would have no
// effect.
func checkKind(s *timer.Schedule) error {
	const list = `"cron", "interval", "fixed_delay", "at" or "delay"`
	switch {
	case s.Kind == "":
		return timer.Invalid("schedule.kind", "expected "+list+", found nothing")
	case !slices.Contains(kinds, s.Kind):
		return timer.Invalid("schedule.kind", fmt.Sprintf("expected %s, found %q", list, s.Kind))
	}
	recurs := []timer.ScheduleKind{timer.KindCron, timer.KindInterval, timer.KindFixedDelay}
	for _, f := range []struct {
		name   string
		set    bool
		owners []timer.ScheduleKind
	}{
		{"specs", len(s.Specs) > 0, recurs[:1]},
		{"gap", s.Gap != "", recurs[:1]},
		{"overlap", s.Overlap != "", recurs[:1]},
		{"at", s.At != nil, []timer.ScheduleKind{timer.KindAt}},
		{"delay", s.Delay != 0, []timer.ScheduleKind{timer.KindDelay}},
		{"every", s.Every != 0, recurs[1:]},
		{"anchor", s.Anchor != nil, recurs[1:2]},
		{"phase", s.Phase != 0, recurs[1:2]},
		{"start_at", s.StartAt != nil, recurs},
		{"end_at", s.EndAt != nil, recurs},
		{"max_fires", s.MaxFires != 0, recurs},
	} {
		if f.set && !slices.Contains(f.owners, s.Kind) {
			return timer.Invalid(
				"schedule."+f.name,
				fmt.Sprintf(
					"expected nothing for kind %q, found a value, which belongs to kind %s: leave it out",
					s.Kind,
					quoted(f.owners),
				),
			)
		}
	}
	return nil
}

func checkDelay(d timer.Duration) error {
	switch {
	case d == 0:
		return timer.Invalid(
			"schedule.delay",
			`expected a duration such as "90s", longer than 0s, found nothing`,
		)
	case d < 0 || time.Duration(d) > MaxDelay:
		return timer.Invalid(
			"schedule.delay",
			fmt.Sprintf(
				`expected a duration longer than 0s and up to 10 years (3650d), such as "90s", found %s`,
				time.Duration(d),
			),
		)
	}
	return nil
}

func checkEvery(s *timer.Schedule) error {
	switch every := time.Duration(s.Every); {
	case every == 0:
		return timer.Invalid("schedule.every", `expected a duration such as "90s", found nothing`)
	case every < time.Second || every > MaxDelay:
		return timer.Invalid(
			"schedule.every",
			fmt.Sprintf("expected a duration from 1s to 10 years (3650d), found %s", every),
		)
	case every%time.Millisecond != 0:
		return timer.Invalid(
			"schedule.every",
			fmt.Sprintf("expected whole milliseconds, found %s", every),
		)
	}
	switch phase := time.Duration(s.Phase); {
	case phase < 0 || phase >= time.Duration(s.Every):
		return timer.Invalid(
			"schedule.phase",
			fmt.Sprintf(
				"expected a duration from 0s to less than every (%s), found %s",
				time.Duration(s.Every),
				phase,
			),
		)
	case phase%time.Millisecond != 0:
		return timer.Invalid(
			"schedule.phase",
			fmt.Sprintf("expected whole milliseconds, found %s", phase),
		)
	}
	return nil
}

func checkSpecs(s *timer.Schedule) error {
	if len(s.Specs) == 0 {
		return timer.Invalid(
			"schedule.specs",
			`expected at least one cron expression such as "*/5 * * * *", found none`,
		)
	}
	if len(s.Specs) > timer.MaxSpecs {
		return timer.Invalid(
			"schedule.specs",
			fmt.Sprintf(
				"expected at most %d cron expressions, found %d",
				timer.MaxSpecs,
				len(s.Specs),
			),
		)
	}
	for i, spec := range s.Specs {
		if len(spec) > timer.MaxSpecLen {
			return timer.Invalid(
				specField(i),
				fmt.Sprintf(
					"at %d: expected the end, as %[1]d bytes are allowed, found %d more",
					timer.MaxSpecLen,
					len(spec)-timer.MaxSpecLen,
				),
			)
		}
	}
	if err := oneOf("schedule.gap", s.Gap, timer.GapShift, timer.GapSkip); err != nil {
		return err
	}
	return oneOf(
		"schedule.overlap",
		s.Overlap,
		timer.OverlapFirst,
		timer.OverlapSecond,
		timer.OverlapBoth,
	)
}

func specField(i int) string { return fmt.Sprintf("schedule.specs[%d]", i) }
