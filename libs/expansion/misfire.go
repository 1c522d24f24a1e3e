package expansion

import (
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxMissedScan bounds the missed due times that one plan reads. It takes some ten milliseconds,
// with the timer's row locked.
const maxMissedScan = 50_000

// planMissed handles the due times that were not expanded in time. The misfire policy keeps at most
// its catch-up fires; one record stands for the others. more reports that the scan was cut short
// and the next plan continues.
func (s *planBuilder) planMissed() (more bool) {
	m := s.timer.Definition.Misfire.For(s.timer.Definition.Schedule.Kind)
	grace := m.MisfiredAfter().Milliseconds()
	if s.firesLeft <= 0 || s.timer.Definition.Schedule.Kind == timer.KindFixedDelay ||
		!s.late(s.due, grace) {
		return false // its one open fire continues from the last outcome and is never left out
	}
	anchor := s.due
	var dues []int64
	for s.late(s.due, grace) && len(dues) < maxMissedScan {
		dues = append(dues, s.due)
		s.next()
	}
	more = s.late(s.due, grace)
	keep := 0 // how many of the latest run
	switch m.Policy {
	case timer.MisfireFireAll:
		keep = min(m.MaxFires, len(dues))
	case timer.MisfireFireOnce:
		if !more {
			keep = 1
		}
	case timer.MisfireSkip:
	}
	if window := int64(m.CatchUpWindow) / 1e6; window > 0 {
		for keep > 0 && s.planned(dues[len(dues)-keep]) < s.nowMS-window {
			keep--
		}
	}
	keep = int(min(int64(keep), s.firesLeft))
	skipped := len(dues) - keep
	if more && keep > 0 { // the next plan decides which of them are the latest
		s.due = dues[skipped]
	}
	if skipped > 0 {
		s.plan.Skips = append(s.plan.Skips, s.skip(anchor, dues[skipped-1], int64(skipped)))
	}
	if more {
		return true
	}
	if keep = min(keep, s.planner.max); keep < len(dues)-skipped {
		s.due = dues[skipped+keep]
		more = true
	}
	for _, due := range dues[skipped : skipped+keep] {
		s.plan.Fires = append(s.plan.Fires, s.planner.fire(s.timer, due))
		s.firesLeft--
	}
	return more
}

// late reports whether the planned time of a due time is past by more than the grace.
func (s *planBuilder) late(due, graceMS int64) bool {
	if due > s.nowMS-graceMS {
		return false
	}
	return s.planned(due) < s.nowMS-graceMS
}

// planned returns the planned run time of a due time.
func (s *planBuilder) planned(due int64) int64 {
	return due + schedule.Jitter(s.timer.ID, due, s.timer.Definition.Schedule.Jitter)
}

// skip returns one record for a range of misfires.
func (s *planBuilder) skip(from, until, count int64) timer.Outcome {
	t := s.timer
	return timer.Outcome{
		Fire: timer.Fire{
			FireID: timer.FireID{
				Timer: t.ID,
				DueMS: from,
			},
			RunAtMS: from,
			AppID:   t.AppID,
			Version: t.Version,
			Epoch:   t.ActiveEpoch,
		},
		Kind:       timer.Skipped,
		Reason:     timer.ReasonMisfired,
		FinishedMS: s.nowMS,
		UntilMS:    until,
		Count:      count,
	}
}
