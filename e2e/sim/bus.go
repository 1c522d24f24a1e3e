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

// gatedBus is what one process has of the bus. What the broker does wrong, it does by itself.
type gatedBus struct {
	p *process
}

func (b *gatedBus) Publish(ctx context.Context, topic bus.Topic, msgs ...bus.Message) error {
	call := "Publish " + string(topic)
	if err := b.p.enter(ctx, call); err != nil {
		return err
	}
	var draws [2]float64
	b.p.draw(draws[:])
	there, back := good.lag(draws[0])
	clock.Pause(ctx, there)
	if err := b.p.underway(draws[1] < 0.5); err != nil {
		return err
	}
	err := b.p.bus.Publish(ctx, topic, msgs...)
	if back > 0 {
		clock.Pause(ctx, back)
	}
	return errors.Join(err, b.p.leave(call))
}

func (b *gatedBus) Subscribe(
	ctx context.Context,
	s bus.Subscription,
	h bus.Handler,
) (bus.Consumer, error) {
	if err := b.p.enter(ctx, "Subscribe"); err != nil {
		return nil, err
	}
	call := "Handle " + string(s.Topic)
	return b.p.bus.Subscribe(ctx, s, func(ctx context.Context, batch []bus.Message) []error {
		if err := b.p.pass(call, before); err != nil {
			return bus.All(len(batch), err)
		}
		answered := b.p.taken(s.Topic, batch)
		errs := h(ctx, batch)
		if err := b.p.leave(call); err != nil {
			errs = bus.All(len(batch), err)
		}
		answered(errs)
		return errs
	})
}

// taken notes the fires whose tasks a handler gets, and returns what looks at those that it
// acknowledges.
func (p *process) taken(topic bus.Topic, batch []bus.Message) (answered func(errs []error)) {
	if topic != bus.TasksHigh && topic != bus.TasksNormal && topic != bus.TasksLow {
		return func([]error) {}
	}
	tasks := make([]timer.Fire, len(batch))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch {
		tasks[i], _ = taskwire.Decode(batch[i].Payload) // one that cannot be read is of no fire
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
				p.world.refuses(tasks[i].FireID)
			case left == 0:
				p.carried(&tasks[i])
			}
		}
	}
}

// comesAgain is how long a task that was not acknowledged can be away, and longer.
const comesAgain = 15 * time.Second

// refuses notes that a task of a fire was not acknowledged: it comes again.
func (w *Environment) refuses(id timer.FireID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[id] = time.Now()
}

// carried looks whether a task that is acknowledged, and so will not come again, has its fire in
// somebody's hands: claimed, finished, or given back since for another dispatch. A copy of it may
// be under way.
func (p *process) carried(task *timer.Fire) {
	p.world.mu.Lock()
	refused := p.world.refused[task.FireID]
	p.world.mu.Unlock()
	if time.Since(refused) < comesAgain {
		return
	}
	rec, err := p.world.store.Fire(context.Background(), app, task.FireID)
	if err == nil && rec.Open != nil && rec.Open.Owner == 0 && rec.Open.Rev == task.Rev {
		p.world.failf("%s acknowledges the task of %s, and nobody has claimed it", p, task.FireID)
	}
}

func (b *gatedBus) Broadcast(
	ctx context.Context,
	topic bus.Topic,
	h func(context.Context, bus.Message),
) (bus.Consumer, error) {
	if err := b.p.enter(ctx, "Subscribe"); err != nil {
		return nil, err
	}
	return b.p.bus.Broadcast(ctx, topic, func(ctx context.Context, m bus.Message) {
		if b.p.pass("Handle "+string(topic), before) == nil {
			h(ctx, m)
		}
	})
}
