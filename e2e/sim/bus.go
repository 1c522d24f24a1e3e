package sim

import (
	"context"
	"errors"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
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
	clock.Pause(ctx, back)
	return errors.Join(err, b.p.leave(call))
}

func (b *gatedBus) Subscribe(ctx context.Context, s bus.Subscription, h bus.Handler) (bus.Consumer, error) {
	if err := b.p.enter(ctx, "Subscribe"); err != nil {
		return nil, err
	}
	call := "Handle " + string(s.Topic)
	return b.p.bus.Subscribe(ctx, s, func(ctx context.Context, batch []bus.Message) []error {
		if err := b.p.pass(call, before); err != nil {
			return bus.All(len(batch), err)
		}
		errs := h(ctx, batch)
		if err := b.p.leave(call); err != nil {
			return bus.All(len(batch), err)
		}
		return errs
	})
}

func (b *gatedBus) Broadcast(ctx context.Context, topic bus.Topic, h func(context.Context, bus.Message)) (bus.Consumer, error) {
	if err := b.p.enter(ctx, "Subscribe"); err != nil {
		return nil, err
	}
	return b.p.bus.Broadcast(ctx, topic, func(ctx context.Context, m bus.Message) {
		if b.p.pass("Handle "+string(topic), before) == nil {
			h(ctx, m)
		}
	})
}
