package trigger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/dispatch"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	maxCalls       = 3 // of a slice at once: one for each queue
	publishChunk   = 2000
	publishTimeout = 5 * time.Second
)

// queue has the fires of a slice that are published on one topic. No topic waits for another: while
// one takes nothing, its queue has a call under way, and the others and the slice go on.
type queue struct {
	topic  bus.Topic
	fires  []timer.Fire // to be published; those of the call under way are not among them
	busy   bool         // a call is under way
	failed bool         // the last publish was not confirmed
}

// ended tells how a call of a queue has ended.
type ended struct {
	queue   *queue
	fires   []timer.Fire // of the call
	checked bool         // the call found out which fires nobody has claimed: these
	err     error        // the fires were not published, or not confirmed
}

func (s *slice) queues() [maxCalls]*queue { return [...]*queue{&s.high, &s.normal, &s.low} }

// pending reports whether fires remain to be published.
func (s *slice) pending() bool {
	for _, q := range s.queues() {
		if q.busy || len(q.fires) > 0 {
			return true
		}
	}
	return false
}

// assign puts fires into the queues of their topics, in their order.
func (s *slice) assign(fires []timer.Fire, now time.Time) {
	if len(fires) == 0 {
		return
	}
	onTime, low := s.svc.appShares.split(fires, now.UnixMilli())
	s.low.add(low)
	isHigh := func(f *timer.Fire) bool { return f.PriorityLevel == timer.LevelHigh }
	for len(onTime) > 0 {
		q, n := &s.normal, 1
		if isHigh(&onTime[0]) {
			q = &s.high
		}
		for n < len(onTime) && isHigh(&onTime[n]) == isHigh(&onTime[0]) {
			n++
		}
		q.add(onTime[:n:n])
		onTime = onTime[n:]
	}
}

// add adds fires behind the others. An empty queue takes the list itself, and changes nothing in
// it.
func (q *queue) add(fires []timer.Fire) {
	if len(q.fires) == 0 {
		q.fires = fires
		return
	}
	q.fires = append(q.fires, fires...)
}

// send starts a call for each queue that has fires and no call under way. Only a tick repeats what
// failed.
func (s *slice) send(ctx context.Context, ticked bool) {
	for _, q := range s.queues() {
		if q.busy || len(q.fires) == 0 || q.failed && !ticked || !s.lease.valid() {
			continue
		}
		if q.failed {
			s.check(ctx, q)
		} else {
			s.publish(ctx, q)
		}
	}
}

// check finds out which fires of a queue nobody has claimed since they were not confirmed, because
// executors poll the store while no tasks come. The store may be slow: the other queues do not
// wait.
func (s *slice) check(ctx context.Context, q *queue) {
	fires := q.fires
	q.fires, q.busy = nil, true
	s.calls.Go(func() {
		s.ended <- ended{queue: q, fires: s.source.stillUnclaimed(ctx, fires), checked: true}
	})
}

// publish publishes a chunk of a queue. Fires that are not confirmed stay in the queue. Published
// twice, by the next holder of the slice too, they are claimed once. If the process dies, the next
// holder loads those that nobody has claimed.
func (s *slice) publish(ctx context.Context, q *queue) {
	s.moveLate(q)
	n := min(len(q.fires), publishChunk)
	if n == 0 {
		return
	}
	fires := q.fires[:n:n]
	if q.fires, q.busy = q.fires[n:], true; len(q.fires) == 0 {
		q.fires = nil
	}
	s.calls.Go(func() {
		call, cancel := context.WithTimeout(ctx, publishTimeout)
		defer cancel()
		s.ended <- ended{queue: q, fires: fires, err: s.svc.tasks.Publish(call, q.topic, fires)}
	})
}

// moveLate moves the fires of a queue that have become late, while earlier ones were published, to
// the queue of the low-priority topic.
func (s *slice) moveLate(q *queue) {
	now := s.svc.opts.Now()
	isLate := func(f timer.Fire) bool { return dispatch.TopicOf(&f, now) != q.topic }
	if q == &s.low || !slices.ContainsFunc(q.fires, isLate) {
		return
	}
	var onTime, late []timer.Fire
	for _, f := range q.fires {
		if isLate(f) {
			late = append(late, f)
		} else {
			onTime = append(onTime, f)
		}
	}
	q.fires = onTime
	s.low.add(late)
}

// end takes in how a call of a queue has ended. What came into the queue meanwhile stays behind it.
func (s *slice) end(e *ended) {
	q := e.queue
	q.busy = false
	switch {
	case errors.Is(e.err, bus.ErrFull): // executors are busy with tasks, and claim nothing without one
		q.fires = slices.Concat(e.fires, q.fires)
	case e.err != nil:
		s.delayed(e.err)
		q.failed = true
		q.fires = slices.Concat(e.fires, q.fires)
	case e.checked && q == &s.low:
		q.failed = false
		q.fires = slices.Concat(e.fires, q.fires)
	case e.checked:
		fires := slices.Concat(e.fires, q.fires)
		q.failed, q.fires = false, nil
		s.assign(fires, s.svc.opts.Now())
	default:
		s.traced.Add(e.fires)
	}
}
