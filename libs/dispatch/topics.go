package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/timer"
)

// taskTopics returns the topics of tasks.
func taskTopics() [3]bus.Topic {
	return [...]bus.Topic{bus.TasksHigh, bus.TasksNormal, bus.TasksLow}
}

// TopicOf returns the topic of a fire's task at an instant: that of its priority, or the
// low-priority topic if it is late by then.
func TopicOf(f *timer.Fire, now time.Time) bus.Topic {
	switch {
	case f.UsesLowPriorityTopic(), f.RunAtMS < now.Add(-LateAfter).UnixMilli():
		return bus.TasksLow
	case f.PriorityLevel == timer.LevelHigh:
		return bus.TasksHigh
	}
	return bus.TasksNormal
}

// byTopic calls do with the fires of each topic, in their order, for all topics at once. A topic
// that hangs uses up the time of do, and the others would then be refused. Usually all fires have
// one topic: then it calls do itself, with the fires as they are.
func (d *Dispatcher) byTopic(
	ctx context.Context,
	fires []timer.Fire,
	do func(d *Dispatcher, ctx context.Context, topic bus.Topic, fires []timer.Fire) error,
) error {
	if len(fires) == 0 {
		return nil
	}
	now := d.opts.Now()
	first, n := TopicOf(&fires[0], now), 1
	for n < len(fires) && TopicOf(&fires[n], now) == first {
		n++
	}
	if n == len(fires) {
		return do(d, ctx, first, fires)
	}
	parts := make(map[bus.Topic][]timer.Fire)
	for i := range fires {
		topic := TopicOf(&fires[i], now)
		parts[topic] = append(parts[topic], fires[i])
	}
	topics := taskTopics()
	errs := make([]error, len(topics))
	var calls sync.WaitGroup
	for i, topic := range topics {
		if part := parts[topic]; len(part) > 0 {
			calls.Go(func() { errs[i] = do(d, ctx, topic, part) })
		}
	}
	calls.Wait()
	return errors.Join(errs...)
}
