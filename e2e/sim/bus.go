package sim

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
)

// gatedBus is one process's access to the bus. The broker injects its own faults.
type gatedBus struct {
	p *process
}

func (b *gatedBus) Publish(ctx context.Context, topic bus.Topic, msgs ...bus.Message) error {
	call := "Publish " + string(topic)
	if err := b.p.beforeCall(ctx, call); err != nil {
		return err
	}
	var draws [2]float64
	b.p.draw(draws[:])
	sendDelay, replyDelay := healthy.latency(draws[0])
	clock.Pause(ctx, sendDelay)
	if err := b.p.passArrival(draws[1] < 0.5); err != nil {
		return err
	}
	err := b.p.bus.Publish(ctx, topic, msgs...)
	if replyDelay > 0 {
		clock.Pause(ctx, replyDelay)
	}
	return errors.Join(err, b.p.afterCall(call))
}

func (b *gatedBus) Subscribe(
	ctx context.Context,
	s bus.Subscription,
	h bus.Handler,
) (bus.Consumer, error) {
	if err := b.p.beforeCall(ctx, "Subscribe"); err != nil {
		return nil, err
	}
	call := "Handle " + string(s.Topic)
	return b.p.bus.Subscribe(ctx, s, func(ctx context.Context, batch []bus.Message) []error {
		if err := b.p.passGate(call, before); err != nil {
			return bus.SameError(len(batch), err)
		}
		checkReplies := b.p.trackTasks(s.Topic, batch)
		errs := h(ctx, batch)
		if err := b.p.afterCall(call); err != nil {
			errs = bus.SameError(len(batch), err)
		}
		checkReplies(errs)
		return errs
	})
}

// trackTasks records the fires whose tasks a handler gets. It returns a function that checks the
// fires of the acknowledged tasks.
func (p *process) trackTasks(
	topic bus.Topic,
	batch []bus.Message,
) (checkReplies func(errs []error)) {
	if topic != bus.TasksHigh && topic != bus.TasksNormal && topic != bus.TasksLow {
		return func([]error) {}
	}
	tasks := make([]timer.Fire, len(batch))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch {
		tasks[i], _ = taskwire.Decode(batch[i].Payload) // an undecodable task has no fire
		p.tasks[tasks[i].FireID]++
	}
	return func(errs []error) {
		for i := range tasks {
			p.mu.Lock()
			p.tasks[tasks[i].FireID]--
			left := p.tasks[tasks[i].FireID]
			if left == 0 {
				delete(p.tasks, tasks[i].FireID)
			}
			p.mu.Unlock()
			switch {
			case errs != nil && errs[i] != nil:
				p.env.noteNack(tasks[i].FireID)
			case left == 0:
				p.checkAcked(&tasks[i])
			}
		}
	}
}

// redeliveredWithin is longer than the broker keeps an unacknowledged task before its redelivery.
const redeliveredWithin = 15 * time.Second

// noteNack records that a task of a fire was not acknowledged, so that the broker redelivers it.
func (env *Environment) noteNack(id timer.FireID) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.nackedAt[id] = time.Now()
}

// checkAcked checks the fire of an acknowledged task, which does not come again. A process must
// have claimed or finished the fire, or released it for another dispatch. It skips fires with a
// recent nack, because another copy of the task may be in transit.
func (p *process) checkAcked(task *timer.Fire) {
	p.env.mu.Lock()
	nackedAt := p.env.nackedAt[task.FireID]
	p.env.mu.Unlock()
	if time.Since(nackedAt) < redeliveredWithin {
		return
	}
	rec, err := p.env.store.Fire(context.Background(), app, task.FireID)
	if err == nil && rec.Open != nil && rec.Open.Owner == 0 && rec.Open.Rev == task.Rev {
		p.env.failf("%s acknowledges the task of %s, and no process has claimed it", p, task.FireID)
	}
}

func (b *gatedBus) Broadcast(
	ctx context.Context,
	topic bus.Topic,
	h func(context.Context, bus.Message),
) (bus.Consumer, error) {
	if err := b.p.beforeCall(ctx, "Subscribe"); err != nil {
		return nil, err
	}
	return b.p.bus.Broadcast(ctx, topic, func(ctx context.Context, m bus.Message) {
		if b.p.passGate("Handle "+string(topic), before) == nil {
			h(ctx, m)
		}
	})
}
