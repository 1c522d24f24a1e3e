package definition

import (
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// ScheduleBody is a schedule. Package schedule states the rules.
type ScheduleBody struct {
	Kind    string   `json:"kind" enum:"cron,interval,fixed_delay,at,delay" doc:"How the instants are named."`
	Specs   []string `json:"specs,omitempty" nullable:"false" maxItems:"16" doc:"cron: expressions of at most 256 bytes each, of 5, 6 (seconds first) or 7 (with year) fields, or @hourly, @every 90s, @every 1d and the like. Ranges may wrap (22-2, fri-mon, nov-feb); L, L-3, LW, L-1W, 15W, 5L, 5#3 and H are known; a step is less than the values of its field; years end with 2199. Instants that coincide are one." example:"[\"*/5 * * * *\"]"`
	Zone    string   `json:"time_zone,omitempty" doc:"IANA time zone; the deployment's default (UTC) where it is left out." example:"Europe/Berlin"`
	Gap     string   `json:"gap,omitempty" enum:"shift,skip" doc:"cron: when local times are due that a day skips; shift by default."`
	Overlap string   `json:"overlap,omitempty" enum:"first,second,both" doc:"cron: at which of them local times are due that a day has twice; first by default."`
	At      string   `json:"at,omitempty" format:"date-time" doc:"at: the instant, from 1970 to 2199. One in the past is due at once." example:"2030-01-31T09:00:00Z"`
	Delay   string   `json:"delay,omitempty" doc:"delay: how long after the first activation; longer than 0s, at most 10 years (3650d)." example:"90s"`
	Every   string   `json:"every,omitempty" doc:"interval: the distance of its fires; fixed_delay: how long after the end of a fire the next is due. From 1s to 10 years (3650d), in whole milliseconds." example:"10m"`
	Anchor  string   `json:"anchor,omitempty" format:"date-time" doc:"interval: where it counts from, from 1970 to 2199; the first activation where it is left out."`
	Phase   string   `json:"phase,omitempty" doc:"interval: added to the anchor; from 0s to less than every, in whole milliseconds." example:"30s"`

	StartAt  string `json:"start_at,omitempty" format:"date-time" doc:"Nothing is due before it. From 1970 to 2199."`
	EndAt    string `json:"end_at,omitempty" format:"date-time" doc:"Nothing is due at it or after it. From 1970 to 2199, and later than start_at."`
	MaxFires int64  `json:"max_fires,omitempty" minimum:"0" doc:"How many of its fires are called in all, with whatever outcome; those that are skipped do not count. No limit where it is 0 or left out."`
	Jitter   string `json:"jitter,omitempty" doc:"Fires run up to so much after they are due, at most 24h; always the same for one instant of one timer." example:"30s"`

	Calendars []string `json:"calendars,omitempty" nullable:"false" maxItems:"8" doc:"Calendars of the app, by name: an instant must be allowed by all of them." example:"[\"holidays\"]"`
	Excluded  string   `json:"excluded,omitempty" enum:"skip,next_allowed,previous_allowed" doc:"With calendars: what becomes of an excluded instant; skip by default."`
}

// ReadSchedule converts a body to a schedule. Where a zone matters and none is given, it stores the
// API's default zone. A later change of that setting must not move existing timers.
func (s *Reader) ReadSchedule(b *ScheduleBody, r *input.BodyReader) timer.Schedule {
	out := timer.Schedule{
		Kind: timer.ScheduleKind(
			b.Kind,
		),
		Specs:   b.Specs,
		Zone:    b.Zone,
		Gap:     timer.GapPolicy(b.Gap),
		Overlap: timer.OverlapPolicy(b.Overlap),
		At:      r.Instant("schedule.at", b.At),
		Delay:   r.Duration("schedule.delay", b.Delay, 0),
		Every: r.Duration(
			"schedule.every",
			b.Every,
			0,
		),
		Anchor: r.Instant("schedule.anchor", b.Anchor),
		Phase:  r.Duration("schedule.phase", b.Phase, 0),
		StartAt: r.Instant(
			"schedule.start_at",
			b.StartAt,
		),
		EndAt:    r.Instant("schedule.end_at", b.EndAt),
		MaxFires: b.MaxFires,
		Jitter: r.Duration(
			"schedule.jitter",
			b.Jitter,
			0,
		),
		Calendars: b.Calendars,
		Excluded:  timer.ExcludedPolicy(b.Excluded),
	}
	refuseZero(r, "schedule.delay", b.Delay, out.Delay, "longer than 0s and up to")
	refuseZero(r, "schedule.every", b.Every, out.Every, "from 1s to")
	s.DefaultZone(&out)
	return out
}

// refuseZero refuses a duration of 0s, which would count as left out.
func refuseZero(r *input.BodyReader, field, text string, d timer.Duration, bounds string) {
	if text != "" && d == 0 {
		r.Add(timer.Invalid(field, fmt.Sprintf(
			"expected a duration %s 10 years (3650d), found %q", bounds, input.Clip(text))))
	}
}

// DefaultZone sets the zone of a schedule that has none, if it matters.
func (s *Reader) DefaultZone(d *timer.Schedule) {
	if d.Zone == "" && s.Zone != time.UTC.String() && hasZone(d) {
		d.Zone = s.Zone
	}
}

// hasZone reports whether the zone of a schedule matters: calendars without one of their own use it.
func hasZone(d *timer.Schedule) bool { return d.Kind == timer.KindCron || len(d.Calendars) > 0 }

// DropDefaults removes values that equal their default, so that a definition is the same whether
// they are written out or not. It runs after all checks, because a field of another kind is an
// error even with its default.
func DropDefaults(d *timer.Definition) {
	clearDefault(&d.Schedule.Gap, timer.GapShift)
	clearDefault(&d.Schedule.Overlap, timer.OverlapFirst)
	clearDefault(&d.Schedule.Excluded, timer.ExcludedSkip)
	clearDefault(&d.Schedule.Zone, time.UTC.String())
	if len(d.Schedule.Calendars) == 0 {
		d.Schedule.Calendars = nil
	}
	clearDefault(&d.Misfire.Grace, timer.DefaultGrace)
	clearDefault(&d.Misfire.MaxFires, timer.DefaultMisfireFires)
	if d.Misfire.MaxFires == 0 { // the policy it belongs to is written out
		clearDefault(&d.Misfire.Policy, timer.Misfire{}.For(d.Schedule.Kind).Policy)
	}
	clearDefault(&d.Concurrency.Policy, timer.ConcurrencyAllow)
	clearDefault(&d.Concurrency.MaxQueue, timer.DefaultMaxQueue)
	clearDefault(&d.Priority, timer.PriorityNormal)
	if len(d.Labels) == 0 {
		d.Labels = nil
	}
}

func clearDefault[T comparable](v *T, def T) {
	if *v == def {
		var zero T
		*v = zero
	}
}

// ShowSchedule writes out the defaults of fields that the kind has. The zone is among them wherever
// DefaultZone would set another one, so that a body that was shown and comes back changes nothing.
func ShowSchedule(d *timer.Schedule) ScheduleBody {
	b := ScheduleBody{
		Kind: string(
			d.Kind,
		),
		Specs: d.Specs,
		Zone:  d.Zone,
		At:    showInstant(d.At),
		Delay: showDuration(d.Delay),
		Every: showDuration(d.Every),
		Anchor: showInstant(
			d.Anchor,
		),
		Phase:     showDuration(d.Phase),
		StartAt:   showInstant(d.StartAt),
		EndAt:     showInstant(d.EndAt),
		MaxFires:  d.MaxFires,
		Jitter:    showDuration(d.Jitter),
		Calendars: d.Calendars,
	}
	if hasZone(d) {
		b.Zone = OrElse(d.Zone, time.UTC.String())
	}
	if d.Kind == timer.KindCron {
		b.Gap, b.Overlap = OrElse(
			string(d.Gap),
			string(timer.GapShift),
		), OrElse(
			string(d.Overlap),
			string(timer.OverlapFirst),
		)
	}
	if len(d.Calendars) > 0 {
		b.Excluded = OrElse(string(d.Excluded), string(timer.ExcludedSkip))
	}
	return b
}

// OrElse returns v, or def where v is empty.
func OrElse(v, def string) string {
	if v == "" {
		return def
	}
	return v
}

// showInstant formats an instant of a definition with full precision; nil is empty.
func showInstant(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// showDuration formats a duration; 0 is empty.
func showDuration(d timer.Duration) string {
	if d == 0 {
		return ""
	}
	return time.Duration(d).String()
}
