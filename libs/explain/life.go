package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// LifeStore is the part of the store that tells the life of a fire.
type LifeStore interface {
	Store
	Fire(ctx context.Context, app string, id timer.FireID) (store.FireRecord, error)
}

// Life is what is known of one fire.
type Life struct {
	store.FireRecord

	// Owner is the session that claimed the fire; its ID is 0: nobody did, or the store itself
	// recorded the outcome. Its name is empty a day after its end.
	Owner store.Session
	NowMS int64
	Alive Owners // of an open fire: whether its owner is alive

	facts      *Facts // of the instant of an open fire; nil: not read
	definition *timer.Definition
	idle       []timer.Inactivity // with definition, of a fire that was called
}

// Hop is a step in the life of a fire.
type Hop struct {
	AtMS int64 // 0: not known
	Code HopCode
	Text string // one sentence, or two

	Path        timer.Path // of HopDispatched and HopFound
	Session     timer.ID   // of HopClaimed
	SessionName string     // of HopClaimed; empty: not known
	Wait        timer.Wait // of HopWaited and HopWaiting
	WaitMS      int64      // of HopWaited; 0: not known
	Attempt     int32      // of HopAttempt
}

// ReadLife reads the life of a fire. Error: not_found.
func ReadLife(
	ctx context.Context, s LifeStore, app string, id timer.FireID, nowMS int64,
) (*Life, error) {
	return readLife(ctx, s, app, id, nowMS, nil)
}

// Life reads the life of a fire of one of the instants. Error: not_found.
func (f *Facts) Life(ctx context.Context, s LifeStore, id timer.FireID) (*Life, error) {
	return readLife(ctx, s, f.App, id, f.NowMS, f)
}

// readLife reads the life of a fire. facts are those of its instant, nil: not read.
func readLife(
	ctx context.Context, s LifeStore, app string, id timer.FireID, nowMS int64, facts *Facts,
) (*Life, error) {
	rec, err := s.Fire(ctx, app, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	l := &Life{FireRecord: rec, NowMS: nowMS, facts: facts}
	l.Attempts = attemptsOf(&rec)
	if err := l.readOwner(ctx, s); err != nil {
		return nil, err
	}
	if rec.Outcome != nil {
		return l, l.readPlan(ctx, s)
	}
	if l.facts != nil {
		return l, nil
	}
	if id.Series != 0 { // what the schedule says of its instant does not matter
		states, err := s.States(ctx, []timer.ID{id.Timer})
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		if len(states) > 0 {
			l.facts = &Facts{Query: Query{App: app, ID: id.Timer, NowMS: nowMS}, State: states[0]}
		}
		return l, nil
	}
	l.facts, err = Read(ctx, s, Query{
		App: app, ID: id.Timer, FromMS: id.DueMS, ToMS: id.DueMS + 1, Limit: 1, NowMS: nowMS,
	})
	if timer.CodeOf(err) == timer.CodeNotFound { // deleted with its app meanwhile
		return l, nil
	}
	return l, err
}

// readOwner reads the session that has claimed the fire, or that ended it.
func (l *Life) readOwner(ctx context.Context, s Sessions) error {
	switch {
	case l.Outcome == nil:
		l.Owner.ID = l.Open.Owner
	case l.Outcome.Owner != store.SystemSession:
		l.Owner.ID = l.Outcome.Owner
	}
	if l.Owner.ID == 0 {
		return nil
	}
	found, err := s.SessionsByID(ctx, []timer.ID{l.Owner.ID})
	if len(found) > 0 {
		l.Owner = found[0]
		l.Alive = Owners{l.Owner.ID: !l.Owner.Ended}
	}
	return err //nolint:wrapcheck // the store says what it was doing
}

// readPlan reads what tells when a fire of the schedule was to be called.
func (l *Life) readPlan(ctx context.Context, s Store) error {
	o := l.Outcome
	if o.Cause != timer.CauseSchedule || len(l.Attempts) == 0 {
		return nil
	}
	key := store.VersionKey{Timer: o.Timer, Version: o.Version}
	found, err := s.Definitions(ctx, []store.VersionKey{key})
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	if l.definition = found[key]; l.definition == nil || !l.definition.Schedule.Kind.OneShot() {
		return nil
	}
	all, err := s.Inactivities(ctx, []timer.ID{o.Timer})
	l.idle = all[o.Timer]
	return err //nolint:wrapcheck // the store says what it was doing
}

// attemptsOf returns the attempts of a fire. A first attempt that succeeded has no row, so it is
// built from the outcome, without an excerpt. An outcome recorded by the store itself is a
// completion, whose time is not that of the attempt.
func attemptsOf(rec *store.FireRecord) []timer.Attempt {
	o := rec.Outcome
	if len(rec.Attempts) > 0 || o == nil || o.Kind != timer.Delivered || o.Attempts != 1 ||
		o.Owner == store.SystemSession {
		return rec.Attempts
	}
	return []timer.Attempt{
		{
			FireID:     o.FireID,
			N:          1,
			StartMS:    o.FinishedMS - o.DurationMS,
			DurationMS: o.DurationMS,
			StatusCode: o.StatusCode,
		},
	}
}

// Timeline returns the hops of the fire in order of time. A hop whose instant is not known comes
// where it belongs. What only a lost executor knew is said to be unknown.
func (l *Life) Timeline() []Hop {
	hops := l.before()
	if l.Outcome != nil {
		hops = append(hops, l.arrival(&l.Outcome.Hops, l.Outcome.Owner)...)
		hops = append(hops, l.waited(&l.Outcome.Hops)...)
	} else if l.Open.Owner != 0 {
		hops = append(hops, l.claimedNow())
	}
	for i := range l.Attempts {
		hops = append(hops, l.attempt(&l.Attempts[i]))
	}
	if l.Outcome != nil {
		hops = append(hops, Hop{
			AtMS: l.Outcome.FinishedMS,
			Code: HopRecorded,
			Text: finishedText(l.Outcome, l.lastAttempt()),
		})
	}
	at := make([]int64, len(hops))
	order := make([]int, len(hops))
	for i := range hops {
		if order[i], at[i] = i, hops[i].AtMS; at[i] == 0 && i > 0 {
			at[i] = at[i-1]
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	sorted := make([]Hop, 0, len(hops)+1)
	for _, i := range order {
		sorted = append(sorted, hops[i])
	}
	if l.Outcome == nil {
		sorted = append(sorted, l.waiting())
	}
	return sorted
}

// fire returns the fire in its present or final state.
func (l *Life) fire() *timer.Fire {
	if l.Outcome != nil {
		return &l.Outcome.Fire
	}
	return l.Open
}

// before returns the hops up to the due instant.
func (l *Life) before() []Hop {
	f := l.fire()
	first := Hop{
		Code: HopCreated,
		Text: "Created from the schedule, by version " + strconv.Itoa(int(f.Version)) +
			"; when is not recorded.",
	}
	if f.Series != 0 {
		first = Hop{
			AtMS: requestedMS(f), Code: HopRequested,
			Text: "Requested by a " + f.Cause.String() + ".",
		}
	}
	due := Hop{AtMS: f.DueMS, Code: HopDue, Text: "Due."}
	if planned, why := l.planned(); planned > f.DueMS {
		due.Text = "Due; to be called from " + instant(planned) + " on, because of " + why + "."
	}
	if o := l.Outcome; o != nil && o.Count > 1 {
		due.Text = "Due, as the first of a stretch up to " + instant(o.UntilMS) + "."
	}
	if f.Series != 0 && first.AtMS > due.AtMS {
		return []Hop{due, first}
	}
	return []Hop{first, due}
}

// planned returns from when on a fire of the schedule was to be called, and why that is later than
// its due instant; 0: not known, or not later.
func (l *Life) planned() (ms int64, why string) {
	if l.definition == nil {
		return 0, ""
	}
	due, s := l.Outcome.DueMS, &l.definition.Schedule
	if jitter := schedule.Jitter(l.Outcome.Timer, due, s.Jitter); jitter > 0 {
		ms, why = due+jitter, "the jitter"
	}
	for _, i := range l.idle { // only a one-shot is called that was due meanwhile
		if i.Covers(due) && i.UntilMS != timer.NeverMS && i.UntilMS > ms {
			ms, why = i.UntilMS, "a later activation"
		}
	}
	return ms, why
}

// lastAttempt returns the last attempt, nil if none is known.
func (l *Life) lastAttempt() *timer.Attempt {
	if len(l.Attempts) == 0 {
		return nil
	}
	return &l.Attempts[len(l.Attempts)-1]
}

// arrival returns how the fire came to the session that recorded it.
func (l *Life) arrival(h *timer.Hops, owner timer.ID) []Hop {
	if owner == store.SystemSession {
		if l.Outcome.Attempts == 0 {
			return nil // nobody claimed it
		}
		return []Hop{
			{
				Code: HopClaimed,
				Text: "An executor called it. Which one is not kept, because the receiver or a request " +
					"ended the fire.",
			},
		}
	}
	claimed := Hop{
		AtMS: h.ClaimedMS, Code: HopClaimed, Session: owner, SessionName: l.Owner.Name,
		Text: "Claimed by " + l.ownerText() + ".",
	}
	switch late := l.afterRunTime(claimed.AtMS); {
	case claimed.AtMS == 0:
		claimed.Text = "Claimed by " + l.ownerText() + "; when is not recorded."
	case late != "":
		claimed.Text = "Claimed by " + l.ownerText() + ", " + late + " after its run time."
	}
	path := pathHop(h)
	if late := l.afterRunTime(path.AtMS); late != "" && h.Path == timer.PathDirect {
		path.Text += " That was " + late + " after its run time."
	}
	return []Hop{path, claimed}
}

// afterRunTime returns how long after the fire's run time a step of its first claim was, empty if it
// was not late or that is not known.
func (l *Life) afterRunTime(ms int64) string {
	if len(l.Attempts) == 0 || l.Attempts[0].N != 1 ||
		!firstClaim(&l.Outcome.Hops, l.Attempts[0].StartMS) {
		return ""
	}
	late := ms - (l.Attempts[0].StartMS - l.Outcome.LatenessMS)
	if late < lateClaimMS {
		return ""
	}
	return duration(late)
}

// pathTexts says what brought a fire to its executor.
var pathTexts = map[timer.Path]string{
	timer.PathSlice:    "A trigger published its task, with the slice.",
	timer.PathDirect:   "The process that committed it published its task at once.",
	timer.PathDueSoon:  "No task had come: an executor found it due soon.",
	timer.PathOrphaned: "The session that owned it had expired, and with it what that knew; an executor found it.",
	timer.PathOverdue:  "An executor found it long past its run time.",
	timer.PathOwnClaim: "The answer to its claim was lost, so its executor claimed it again; how it came first is unknown.",
	timer.PathReadmit:  "Its app could make calls sooner than expected, for example by raised limits: an executor looked for it.",
	timer.PathOrder:    "Later fires of its timer waited for it: an executor looked for it.",
}

func pathHop(h *timer.Hops) Hop {
	hop := Hop{Code: HopFound, Path: h.Path, Text: pathTexts[h.Path], AtMS: h.ClaimedMS}
	if h.Path.HasTask() {
		hop.Code, hop.AtMS = HopDispatched, h.DispatchedMS
		if hop.AtMS == 0 {
			hop.Text += " When is not recorded."
		}
	}
	if hop.Text == "" {
		hop.AtMS, hop.Code = 0, HopDispatched
		hop.Text = "What brought it to its executor is not known."
	}
	return hop
}

func (l *Life) ownerText() string {
	text := "session " + l.Owner.ID.String()
	if l.Owner.Name != "" {
		return fmt.Sprintf("%q (%s)", l.Owner.Name, text)
	}
	return text + ", whose name is no longer kept"
}

// claimedNow tells who owns an open fire.
func (l *Life) claimedNow() Hop {
	h := Hop{
		Code:        HopClaimed,
		Session:     l.Owner.ID,
		SessionName: l.Owner.Name,
		Text:        "Claimed by " + l.ownerText() + ". When, and by which path, only that executor knows.",
	}
	if l.Owner.Ended || l.Owner.Name == "" {
		h.Text = "Claimed by " + l.ownerText() +
			". That session has ended, so another executor will claim the fire."
	}
	return h
}

// waited returns the longest wait before the first attempt.
func (l *Life) waited(h *timer.Hops) []Hop {
	end, before := l.Outcome.FinishedMS, "before it ended"
	if len(l.Attempts) > 0 {
		end, before = l.Attempts[0].StartMS, "before its first attempt"
	}
	w := Hop{Code: HopWaited, Wait: h.WaitedFor, WaitMS: h.WaitedMS}
	switch {
	case h.WaitedFor == timer.WaitNothing,
		l.Outcome.Owner == store.SystemSession && h.WaitedFor == 0:
		return nil
	case h.WaitedFor == timer.WaitUnknown:
		w.Text = "What it waited for before its first attempt is not known: an earlier claim made " +
			"that attempt."
		if l.Outcome.Hops.Path == timer.PathUnknown {
			w.Text = "What it waited for is not known."
		}
	case h.WaitedMS == 0:
		w.Text = fmt.Sprintf("It waited longest %s %s, under an earlier claim; how long is not "+
			"recorded.", waitText(h.WaitedFor), before)
	default:
		w.AtMS = end - h.WaitedMS
		w.Text = fmt.Sprintf(
			"It waited %s %s %s.",
			duration(h.WaitedMS),
			waitText(h.WaitedFor),
			before,
		)
		if h.WaitedMS >= store.MaxWaitedMS {
			w.AtMS, w.Text = 0, fmt.Sprintf("It waited %s or longer %s %s.",
				duration(h.WaitedMS), waitText(h.WaitedFor), before)
		}
	}
	return []Hop{w}
}

// waitText says what a fire waits for.
func waitText(w timer.Wait) string {
	for _, d := range timer.Waits() {
		if d.Value == w {
			return d.Doc
		}
	}
	return fmt.Sprintf("for what a newer release calls %d", w)
}

func duration(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// attempt tells what an attempt came to.
func (l *Life) attempt(a *timer.Attempt) Hop {
	text := fmt.Sprintf("Attempt %d", a.N)
	if a.Target != "" {
		text += fmt.Sprintf(" of target %q", a.Target)
	}
	if a.Failure != timer.FailureAsync {
		text += " took " + duration(a.DurationMS)
	}
	switch {
	case a.Failure == timer.FailureAsync: // its call was accepted; this is how it ended
		text += " failed after it was accepted: " +
			cmp.Or(strings.TrimPrefix(a.Error, "accepted, and "), "completed as failed") + "."
	case a.Failure != timer.FailureNone:
		text += fmt.Sprintf(" and failed: %s", a.Failure)
		if a.StatusCode != 0 {
			text += fmt.Sprintf(", status %d", a.StatusCode)
		}
		if a.Error != "" {
			text += " (" + a.Error + ")"
		}
		text += "."
	case a.StatusCode != 0:
		text += fmt.Sprintf(": status %d", a.StatusCode)
		if a.Error != "" { // it was accepted, with something that could not be read
			text += " (" + a.Error + ")"
		}
		text += "."
	default:
		text += "."
	}
	if o := l.Outcome; o != nil && a.StartMS < o.Hops.ClaimedMS {
		text += " An earlier claim made it; whose is not recorded."
	}
	return Hop{AtMS: a.StartMS, Code: HopAttempt, Text: text, Attempt: a.N}
}

// Code returns the code of an open fire.
func (l *Life) Code() Code {
	var s *timer.State
	if l.facts != nil {
		s = &l.facts.State
	}
	return OpenCode(l.Open, l.Alive, s, l.NowMS)
}

// waiting tells what an open fire waits for.
func (l *Life) waiting() Hop {
	h := Hop{Code: HopWaiting}
	if l.facts != nil {
		f := *l.facts
		f.Owners = l.Alive
		h.Text = f.present(f.judge(l.Open.DueMS), l.Open).Text
	} else {
		h.Text = openText(l.Open, l.Code(), l.NowMS)
	}
	if l.Open.WaitingSinceMS != 0 {
		h.AtMS, h.Wait = l.Open.WaitingSinceMS, l.Open.WaitedFor
	}
	return h
}
