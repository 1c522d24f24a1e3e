package fires

import (
	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// HopsBody is how a fire went its way. What is absent is not known.
type HopsBody struct {
	Path         string `json:"path,omitempty" enum:"unknown,slice,direct,due_soon,orphaned,overdue,own_claim,readmit,order" doc:"Of a finished fire: what brought it to the session that ended it."`
	DispatchedAt string `json:"dispatched_at,omitempty" format:"date-time" doc:"Of a finished fire: when the task was published that brought it."`
	ClaimedAt    string `json:"claimed_at,omitempty" format:"date-time" doc:"Of a finished fire: when that session claimed it."`
	Session      string `json:"session,omitempty" doc:"The executor's session that has claimed it, or that ended it."`
	WaitedFor    string `json:"waited_for,omitempty" enum:"unknown,nothing,limits,breaker,turn,low_priority,order,store,worker,activation" doc:"Of a finished fire: its longest wait before its first attempt. The time until an executor claims it is none."`
	WaitedMS     int64  `json:"waited_ms,omitempty" doc:"How long that wait was. Absent where an earlier claim made the first attempt. Longer waits than 4 h 39 min have that length."`
	WaitingSince string `json:"waiting_since,omitempty" format:"date-time" doc:"Of an open fire: since when it waits for limits, a breaker, its turn or the activation of its timer."`
}

// HopBody is a step in the life of a fire.
type HopBody struct {
	At          string          `json:"at,omitempty" format:"date-time" doc:"When. Absent if that is not known."`
	Code        explain.HopCode `json:"code" enum:"requested,created,due,dispatched,found,claimed,waited,attempt,recorded,waiting" doc:"What happened."`
	Text        string          `json:"text" doc:"The same as a sentence. It says what is not known."`
	Path        string          `json:"path,omitempty" enum:"unknown,slice,direct,due_soon,orphaned,overdue,own_claim,readmit,order" doc:"Of dispatched and found."`
	Session     string          `json:"session,omitempty" doc:"Of claimed."`
	SessionName string          `json:"session_name,omitempty" doc:"Of claimed: the name of the process."`
	WaitedFor   string          `json:"waited_for,omitempty" enum:"unknown,nothing,limits,breaker,turn,low_priority,order,store,worker,activation" doc:"Of waited and waiting."`
	WaitedMS    int64           `json:"waited_ms,omitempty" doc:"Of waited, if it is known."`
	Attempt     int32           `json:"attempt,omitempty" doc:"Of attempt: its number."`
}

func showHops(o *timer.Outcome) (b HopsBody) {
	if o.Owner == store.SystemSession {
		if o.Hops.WaitedFor != timer.WaitUnknown {
			b.WaitedFor, b.WaitedMS = o.Hops.WaitedFor.String(), o.Hops.WaitedMS
		}
		return b
	}
	return HopsBody{
		Path:         o.Hops.Path.String(),
		DispatchedAt: known(o.Hops.DispatchedMS),
		ClaimedAt:    known(o.Hops.ClaimedMS),
		Session:      o.Owner.String(),
		WaitedFor:    o.Hops.WaitedFor.String(),
		WaitedMS:     o.Hops.WaitedMS,
	}
}

func showOpenHops(f *timer.Fire) (b HopsBody) {
	if f.Owner != 0 {
		b.Session = f.Owner.String()
	}
	b.WaitingSince = known(f.WaitingSinceMS)
	return b
}

// known returns an instant, or nothing if it is not known.
func known(ms int64) string {
	if ms == 0 {
		return ""
	}
	return input.Instant(ms)
}

// ShowTimeline converts the life of a fire.
func ShowTimeline(l *explain.Life) []HopBody {
	out := []HopBody{}
	for _, h := range l.Timeline() {
		b := HopBody{
			At: known(h.AtMS), Code: h.Code, Text: h.Text,
			SessionName: h.SessionName, WaitedMS: h.WaitMS, Attempt: h.Attempt,
		}
		switch {
		case h.Code == explain.HopDispatched || h.Code == explain.HopFound:
			b.Path = h.Path.String()
		case h.Code == explain.HopWaited || h.Wait != timer.WaitUnknown:
			b.WaitedFor = h.Wait.String()
		case h.Session != 0:
			b.Session = h.Session.String()
		}
		out = append(out, b)
	}
	return out
}
