package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Answer explains one instant, or one fire of it. A run-now, a backfill and a redrive have answers
// of their own beside the one of the schedule.
type Answer struct {
	AtMS    int64
	Local   string // on the wall clock of the schedule's zone
	Due     bool   // the schedule in force at the instant has it
	Code    Code
	Text    string // one sentence
	Version int32  // whose schedule was in force; 0: none
	// Spec is the cron expression that has the instant. It is empty for other kinds.
	Spec string
	// BeforeMS and AfterMS are the nearest instants of the same schedule, timer.NeverMS: none. They
	// are set if the instant is not due.
	BeforeMS, AfterMS int64
	MovedToMS         int64 // where a policy moved the fire; else 0
	ExpandAtMS        int64 // of an instant not expanded: when the next fires are created; else 0
	Frozen            bool  // the app is frozen, so the fire is not called if that stays so

	Open    *timer.Fire    // the fire, if it is open
	Outcome *timer.Outcome // what became of it; for a stretch of skipped fires the whole stretch
}

// Next returns where the next page begins (Unix ms), 0 if there is none.
func (f *Facts) Next() int64 { return f.next }

// Explain answers for each instant of the range, in order.
func (f *Facts) Explain() []Answer {
	var out []Answer
	for _, at := range f.instants {
		out = append(out, f.at(at)...)
	}
	return out
}

// at explains one instant: the one of the schedule, then fires of other series.
func (f *Facts) at(atMS int64) []Answer {
	base := f.judge(atMS)
	var out []Answer
	finished := map[int64]bool{}
	scheduled := false
	for i := range f.Outcomes {
		o := &f.Outcomes[i]
		if o.DueMS != atMS && (o.Series != 0 || !covers(o, atMS) || !base.Due) {
			continue
		}
		finished[o.Series] = true
		out = append(out, f.finished(base, o))
		scheduled = scheduled || o.Series == 0
	}
	for i := range f.Open {
		o := &f.Open[i]
		if o.DueMS == atMS && !finished[o.Series] {
			out = append(out, f.open(base, o))
			scheduled = scheduled || o.Series == 0
		}
	}
	if !scheduled && (len(out) == 0 || base.Due) {
		f.withoutFire(&base)
		if base.Frozen {
			base.Text += frozenText("")
		}
		out = append([]Answer{base}, out...)
	}
	return out
}

// frozenText says what a freeze means for a fire. again is " again" if it may have been called.
func frozenText(again string) string {
	return " The app is frozen: if it stays so, the fire is not called" + again + "."
}

func covers(o *timer.Outcome, atMS int64) bool {
	return o.DueMS <= atMS && atMS <= max(o.UntilMS, o.DueMS)
}

// version returns the version that is in force at an instant, and the one before. A version decides
// about the instants after it came into force. nil: none is.
func (f *Facts) version(atMS int64) (v, previous *Version) {
	for i := range f.Versions {
		if i > 0 && f.Versions[i].SinceMS >= atMS {
			break
		}
		v, previous = &f.Versions[i], v
	}
	return v, previous
}

// judge tells whether the schedule in force has the instant.
func (f *Facts) judge(atMS int64) Answer {
	a := Answer{AtMS: atMS, Local: instant(atMS), BeforeMS: timer.NeverMS, AfterMS: timer.NeverMS}
	v, previous := f.version(atMS)
	if v == nil {
		a.Code = UnknownSchedule
		return a
	}
	a.Version = v.N
	if v.parsed == nil {
		a.Code = UnknownSchedule
		a.Text = fmt.Sprintf("The schedule of version %d cannot be read: %v.", v.N, v.problem)
		return a
	}
	if f.beginsLater(v) {
		if !f.afterDeletion(&a, v) {
			a.Code = NotActivated
			a.Text = f.neverActiveText() + " Its instants count from its first activation."
		}
		return a
	}
	verdict := f.verdict(v, atMS)
	f.clip(v, &verdict)
	a.Local, a.Due, a.Code = verdict.Local, verdict.Due, Code(verdict.Excluded)
	a.Frozen = a.Due && f.State.Frozen && atMS >= f.NowMS
	a.MovedToMS = verdict.MovedTo
	a.BeforeMS, a.AfterMS = verdict.BeforeMS, verdict.AfterMS
	s := &v.Definition.Schedule
	if s.Kind == timer.KindCron && len(verdict.Specs) > 0 {
		a.Spec = s.Specs[verdict.Specs[0]]
	}
	if a.Due {
		return a
	}
	if previous != nil && previous.parsed != nil && !f.beginsLater(previous) &&
		f.verdict(previous, atMS).Due {
		a.Code, a.Text = Edited, editedText(previous.N, v)
		return a
	}
	if f.movedToActivation(&a, s, &verdict) || f.movedToEdit(&a) ||
		s.Kind == timer.KindFixedDelay && f.afterLastFire(&a, v) {
		return a
	}
	a.Text = f.notDue(v, &verdict, atMS)
	return a
}

// movedToActivation explains the instant of a one-shot that had passed when the timer was activated
// first. It is due at the activation instead.
func (f *Facts) movedToActivation(a *Answer, s *timer.Schedule, x *schedule.Verdict) bool {
	if s.Kind != timer.KindAt || s.At == nil || a.Code != NotInSchedule ||
		x.AfterMS == timer.NeverMS || ceilMS(*s.At) != a.AtMS {
		return false
	}
	a.Code = NotActivated
	if f.State.AnchorMS == 0 {
		a.Text = "The timer has never been active. Activate it: it is due at once then, because this " +
			"instant has passed."
		return true
	}
	a.MovedToMS = x.AfterMS
	a.Text = "The timer was activated first at " + instant(f.State.AnchorMS) +
		", after this instant, so it was due at " + instant(x.AfterMS) + " instead."
	return true
}

// movedToEdit explains the instant of a one-shot that had passed when the latest edit brought it. It
// is due at the edit instead, or when the timer is activated.
func (f *Facts) movedToEdit(a *Answer) bool {
	if f.Timer == nil || f.State.Version <= a.Version {
		return false
	}
	s := &f.Timer.Definition.Schedule
	if s.Kind != timer.KindAt || s.At == nil || ceilMS(*s.At) != a.AtMS {
		return false
	}
	a.Code = Edited
	a.Text = fmt.Sprintf(
		"Version %d has this instant, which had passed when it came into force. So "+
			"its fire was due at once, or as soon as the timer was active.",
		f.State.Version,
	)
	return true
}

// ceilMS rounds up to milliseconds, as schedules do.
func ceilMS(at time.Time) int64 {
	ms := at.UnixMilli()
	if at.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// verdict asks the schedule of a version. A fixed delay counts from the end of its last call. So
// its instants are those of its fires, and the schedule alone has none.
func (f *Facts) verdict(v *Version, atMS int64) schedule.Verdict {
	if v.Definition.Schedule.Kind == timer.KindFixedDelay {
		return schedule.Verdict{
			Excluded: schedule.NotInSchedule,
			Local:    time.UnixMilli(atMS).In(v.parsed.Location()).Format(layout),
			BeforeMS: f.delayed.before(atMS), AfterMS: f.delayed.after(atMS),
		}
	}
	return v.parsed.Judge(atMS, f.anchor())
}

// finished explains a fire with an outcome.
func (f *Facts) finished(a Answer, o *timer.Outcome) Answer {
	a.Outcome, a.Code, a.Due = o, outcomeCode(o.Kind, o.Reason), a.Due || o.Series == 0
	a.Version, a.Frozen = o.Version, false
	if a.Code == Code(timer.Skipped)+"_"+Code(timer.ReasonSuperseded) {
		a.Due = false
	}
	a.Text = requestedText(&o.Fire) + finishedText(o, nil)
	return a
}

// withoutFire explains an instant for which there is neither a fire nor an outcome.
func (f *Facts) withoutFire(a *Answer) {
	switch {
	case a.Code == UnknownSchedule:
		return
	case !a.Due && f.calendarsChanged(a):
		// Whatever the calendar was, a deleted timer and one that was never active had no fire.
		if a.Code != NotActivated && !f.afterDeletion(a, nil) && !f.beforeActivation(a, nil) {
			f.unknownCalendar(a)
		}
		return
	}
	v, _ := f.version(a.AtMS)
	if !a.Due && a.Code != "" {
		if a.Code == NotInSchedule { // the timer has no instants after its deletion, near ones either
			f.afterDeletion(a, v)
		}
		return
	}
	for _, rule := range []func(*Answer, *Version) bool{
		f.afterDeletion, f.beforeActivation, f.whileInactive, f.afterLastFire, f.notExpanded,
	} {
		if rule(a, v) {
			return
		}
	}
	switch {
	case a.AtMS < f.RetainedFromMS:
		a.Code = BeyondRetention
		a.Text = "The schedule has this instant. Outcomes that old are deleted."
	case f.calendarsChanged(a):
		f.unknownCalendar(a)
	case f.hadLastFire(a, v), zoneChanged(a, v):
	default:
		a.Code = Missing
		a.Text = "The schedule has this instant, and there is neither a fire nor an outcome. " +
			"This is an error of Carillon."
	}
}

func (f *Facts) calendarsChanged(a *Answer) bool {
	v, _ := f.version(a.AtMS)
	return v.calendarsMS > a.AtMS
}

func (f *Facts) unknownCalendar(a *Answer) {
	v, _ := f.version(a.AtMS)
	a.Code = CalendarChanged
	a.Text = "A calendar of the schedule has changed since, at " + instant(v.calendarsMS) +
		"; its earlier content is not kept."
}

// zoneChanged explains a due instant whose version was replaced by an equal one: the rules of a time
// zone were changed later than they came into force. The fires until then were those of the rules of
// before, which are not kept.
func zoneChanged(a *Answer, v *Version) bool {
	s := &v.Definition.Schedule
	if !v.copied || cmp.Or(s.Zone, "UTC") == "UTC" && len(s.Calendars) == 0 {
		return false
	}
	a.Code = ZoneChanged
	a.Text = "The rules of a time zone have changed since, at " + instant(v.untilMS) +
		": until then the timer was due by the rules of before, which are not kept."
	return true
}

func (f *Facts) beforeActivation(a *Answer, _ *Version) bool {
	first := f.State.AnchorMS
	if first != 0 && a.AtMS >= first {
		return false
	}
	a.Code, a.Text = NotActivated, f.neverActiveText()
	if first != 0 {
		a.Text = "The timer was activated first at " + instant(first) + "."
	}
	return true
}

func (f *Facts) neverActiveText() string {
	if f.State.Status == timer.StatusDeleted {
		return "The timer was never active."
	}
	return "The timer has never been active. Activate it."
}

func (f *Facts) afterDeletion(a *Answer, _ *Version) bool {
	if f.State.Status != timer.StatusDeleted || a.AtMS < f.State.InactiveSinceMS {
		return false
	}
	a.Code, a.Text = Deleted, "The timer was deleted at "+instant(f.State.InactiveSinceMS)+"."
	return true
}

// inactivity returns the time around an instant in which the timer is not active.
func (f *Facts) inactivity(atMS int64) (timer.Inactivity, bool) {
	i := slices.IndexFunc(f.Inactivities, func(i timer.Inactivity) bool { return i.Covers(atMS) })
	if i < 0 {
		return timer.Inactivity{}, false
	}
	return f.Inactivities[i], true
}

func (f *Facts) whileInactive(a *Answer, v *Version) bool {
	period, ok := f.inactivity(a.AtMS)
	if !ok {
		return false
	}
	a.Code = Inactive
	if period.Status == timer.StatusPaused {
		a.Code = Paused
	}
	a.Text = f.inactivityText(period)
	again := f.activeAgain(period)
	switch {
	case !v.Definition.Schedule.Kind.OneShot():
	case again > f.NowMS:
		a.Text += " It is called once it is active."
	case f.State.Status == timer.StatusDeleted && again >= f.State.InactiveSinceMS:
	case a.AtMS >= f.RetainedFromMS: // the expansion came after the activation, and has this instead
		a.MovedToMS = again
		a.Text += " So it was due at its activation instead, at " + instant(again) + "."
	}
	return true
}

// activeAgain returns when the timer was or is active after a period (Unix ms): a pause may have
// become another one.
func (f *Facts) activeAgain(period timer.Inactivity) int64 {
	for {
		next, ok := f.inactivity(period.UntilMS)
		if !ok {
			return period.UntilMS
		}
		period = next
	}
}

// inactivityText says when a timer is or was not active, and why.
func (f *Facts) inactivityText(period timer.Inactivity) string {
	word := "inactive"
	if period.Status == timer.StatusPaused {
		word = "paused"
	}
	from, until := instant(period.FromMS), instant(period.UntilMS)
	text := fmt.Sprintf("The timer was %s from %s to %s", word, from, until)
	switch {
	case period.UntilMS == timer.NeverMS:
		text = fmt.Sprintf("The timer is %s since %s", word, from)
	case period.UntilMS > f.NowMS:
		text = fmt.Sprintf("The timer is %s from %s until %s", word, from, until)
	}
	if f.Timer != nil && period.FromMS == f.State.InactiveSinceMS && f.Timer.PauseReason != "" {
		text += fmt.Sprintf(" (%s)", f.Timer.PauseReason)
	}
	if period.Status == timer.StatusPaused {
		text += "; the audit trail has by whom"
	}
	return text + "."
}

// behindAfter is how late an expansion is for migrators to be said not to have done it.
const behindAfter = 10 * time.Second

func (f *Facts) notExpanded(a *Answer, _ *Version) bool {
	if f.Timer == nil || a.AtMS < f.Timer.NextDueMS {
		return false
	}
	a.Code = NotExpanded
	a.ExpandAtMS = min(f.Timer.ExpandAtMS, a.AtMS)
	late := f.NowMS - f.Timer.ExpandAtMS
	if f.State.ActiveAt(f.NowMS) && late > behindAfter.Milliseconds() {
		a.Text = fmt.Sprintf("The timer is due then. Its fire does not exist: fires were to be "+
			"created at %s, and no migrator has done so.", instant(f.Timer.ExpandAtMS))
		return true
	}
	a.Text = fmt.Sprintf("The timer is due then. Its fire does not exist yet: fires are created "+
		"ahead of their time, the next ones at %s.", instant(a.ExpandAtMS))
	return true
}

// notDue says why the schedule does not have an instant.
func (f *Facts) notDue(v *Version, x *schedule.Verdict, atMS int64) string {
	s := &v.Definition.Schedule
	nearest := f.nearest(x)
	switch x.Excluded {
	case schedule.BeforeStart:
		return "The schedule begins at " + s.StartAt.UTC().Format(layout) + "." + nearest
	case schedule.AfterEnd:
		if s.EndAt == nil {
			return "The schedule ended before." + nearest
		}
		return "The schedule ends at " + s.EndAt.UTC().Format(layout) + "." + nearest
	case schedule.ByCalendar:
		return "Excluded by " + x.Rule + "." + nearest
	case schedule.MovedByCalendar:
		return "Excluded by " + x.Rule + "; moved to " + instant(x.MovedTo) + "."
	case schedule.ByGap:
		missing := "The local time " + x.Local[:len(time.DateTime)] +
			" does not exist, because clocks were set forward"
		switch {
		case x.MovedTo != 0:
			return missing + "; due at " + instant(x.MovedTo) + " instead."
		case s.Gap == timer.GapSkip:
			return missing + `, and the policy is "skip".` + nearest
		}
		return missing + ", and the end of the gap is outside the schedule's start and end." + nearest
	case schedule.ByOverlap:
		return "This local time occurs twice, because clocks were set back, and the policy selects " +
			"the other pass." + nearest
	case schedule.NotInSchedule, schedule.ExclusionNone:
	}
	if s.Kind == timer.KindFixedDelay {
		return f.delayed.text(atMS, f.NowMS) + nearest
	}
	return "The schedule does not have this instant." + nearest
}

// nearest names the nearest instants of one that is not due, as a sentence with a space before it.
func (f *Facts) nearest(x *schedule.Verdict) string {
	switch before, after := x.BeforeMS != timer.NeverMS, x.AfterMS != timer.NeverMS; {
	case before && after:
		return fmt.Sprintf(" The nearest are %s and %s.", instant(x.BeforeMS), instant(x.AfterMS))
	case after:
		return fmt.Sprintf(" The first one is %s.", instant(x.AfterMS))
	case before && x.BeforeMS > f.NowMS:
		return fmt.Sprintf(" The last one is %s.", instant(x.BeforeMS))
	case before:
		return fmt.Sprintf(" The last one was %s.", instant(x.BeforeMS))
	}
	return ""
}

const layout = "2006-01-02T15:04:05.999Z07:00"

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format(layout) }
