package admission

import "github.com/carillon-timer/carillon/libs/timer"

// OfStatus returns what a timer's status decides about one of its fires: Call, Skip or Defer. It
// decides by the fire's due time, not by the time of the decision. A fire due while the timer was
// inactive is skipped; any other is called, once the timer is active. A one-shot due in an inactive
// period is due at its end. Fires of explicit requests are called regardless of activity. A fire that
// would start now is skipped while its app is frozen.
//
// past are the inactive periods before the current one. known is false if they are needed and nil.
func OfStatus(
	f *timer.Fire,
	oneShot bool,
	s *timer.State,
	past []timer.Inactivity,
	nowMS int64,
) (v Verdict, known bool) {
	switch {
	case !s.Exists(), s.Status == timer.StatusDeleted:
		return skip(timer.ReasonDeleted), true
	case f.Series != 0:
		// A run-now exists only if it was requested before the freeze.
		if s.Frozen && (f.Cause != timer.CauseRunNow || f.Attempt > 0) {
			return skip(timer.ReasonFrozen), true
		}
		return Verdict{}, true
	}
	if !oneShot {
		reason, sure := s.SkipReasonAt(f.DueMS)
		if !sure {
			reason = timer.SkipReasonIn(past, f.DueMS)
		}
		if reason != timer.ReasonNone {
			return skip(reason), true
		}
		if !sure && past == nil {
			return Verdict{}, false
		}
	}
	switch {
	case !s.ActiveAt(nowMS):
		return Verdict{Action: Defer}, true
	case s.Frozen:
		return skip(timer.ReasonFrozen), true
	}
	return Verdict{}, true
}

// VersionOf returns the version by which to call a fire. sure is false if the state does not
// suffice to tell. A fire due after the current version took effect is called by it, an earlier one
// by the version in effect then.
func VersionOf(f *timer.Fire, s *timer.State) (version int32, sure bool) {
	switch {
	case f.Series != 0, f.Version >= s.Version, f.DueMS <= s.VersionMS && f.Version+1 == s.Version:
		return f.Version, true
	case f.DueMS <= s.VersionMS:
		return f.Version, false
	case s.PlanVersion <= f.Version:
		return s.Version, true
	default:
		return f.Version, true // its row was moved to the version, or the fire is superseded
	}
}
