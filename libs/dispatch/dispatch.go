// Package dispatch brings committed fires on their way: it marks them in the window and publishes
// tasks. It is only ever called after the commit, and nothing depends on its success: what it
// loses, the slice's load or the sweep finds.
package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

// Timing of the priorities.
const (
	// DefaultDispatchLead is how far ahead of their run triggers publish tasks.
	DefaultDispatchLead = 2 * time.Second
	// DirectDispatchSlack is the time that a mark has to arrive: a fire whose run is nearer than
	// lead + slack is published by who committed it.
	DirectDispatchSlack = 3 * time.Second
	// MisfiredAfter is how far past its run a fire is catch-up, which goes by the low-priority topic,
	// like a backfill, and never delays the present.
	LateAfter = 5 * time.Second

	// windowAhead is how far ahead a fire is marked. What runs later is read from the store when its
	// minute begins.
	windowAhead = 2 * time.Hour

	windowTimeout = 2 * time.Second
	directTimeout = 2 * time.Second
)

// Options of a dispatcher.
type Options struct {
	Window       window.Window
	Bus          bus.Publisher
	DispatchLead time.Duration // 0: DefaultDispatchLead
	Now          func() time.Time
	Logger       zerolog.Logger
	Registerer   prometheus.Registerer
}

func (o *Options) validate() error {
	c := options.Of("dispatch")
	c.Need("Window", o.Window == nil)
	c.Need("Bus", o.Bus == nil)
	c.Need("Now", o.Now == nil)
	c.Need("Registerer", o.Registerer == nil)
	return c.Err()
}

// Dispatcher is safe for concurrent use.
type Dispatcher struct {
	opts   Options
	unsent unsent

	entriesTotal *prometheus.CounterVec
	published    *prometheus.CounterVec
}

// New returns a dispatcher.
func New(opts Options) (*Dispatcher, error) {
	options.Default(&opts.DispatchLead, DefaultDispatchLead)
	if err := opts.validate(); err != nil {
		return nil, err
	}
	f := promauto.With(opts.Registerer)
	return &Dispatcher{
		opts: opts, unsent: unsent{wake: make(chan struct{}, 1)},
		entriesTotal: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_window_entries_total",
			Help: "Fires marked in the window after their commit, by result.",
		}, []string{"result"}),
		published: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_tasks_published_total", Help: "Tasks published, by topic and result.",
		}, []string{"topic", "result"}),
	}, nil
}

// Committed marks fires, and publishes those whose run is so near that their mark might come too
// late. It returns when both are done or given up (2 s): an error would help nobody, since the rows
// are committed. What it could not publish Run does, and while there is such nobody waits.
func (d *Dispatcher) Committed(ctx context.Context, fires []timer.Fire) {
	if len(fires) == 0 {
		return
	}
	// The caller's request may be cancelled once it has its answer; the fires are committed all the
	// same.
	ctx = context.WithoutCancel(ctx)
	now := d.opts.Now().UnixMilli()
	polled := now + d.opts.DispatchLead.Milliseconds()
	direct := polled + DirectDispatchSlack.Milliseconds()
	var entries, tasks []timer.Fire
	for i := range fires {
		if fires[i].RunAtMS < direct {
			tasks = append(tasks, fires[i])
		}
		if fires[i].RunAtMS > polled && fires[i].RunAtMS < now+windowAhead.Milliseconds() {
			entries = append(entries, fires[i])
		}
	}
	var wg sync.WaitGroup
	if len(tasks) > 0 {
		wg.Go(func() { d.direct(ctx, tasks) })
	}
	if len(entries) > 0 {
		d.putEntries(ctx, entries)
	}
	wg.Wait()
}

func (d *Dispatcher) putEntries(ctx context.Context, fires []timer.Fire) {
	ctx, cancel := context.WithTimeout(ctx, windowTimeout)
	defer cancel()
	if err := d.opts.Window.Put(ctx, fires); err != nil {
		d.entriesTotal.WithLabelValues("lost").Add(float64(len(fires)))
		d.opts.Logger.Debug().
			Err(err).
			Int("fires", len(fires)).
			Msg("marks lost, the sweep will find them")
		return
	}
	d.entriesTotal.WithLabelValues("ok").Add(float64(len(fires)))
}

// direct publishes, or leaves to Run what the bus does not take. While the bus is known to be away
// nobody waits for it.
func (d *Dispatcher) direct(ctx context.Context, fires []timer.Fire) {
	var err error
	if !d.unsent.notEmpty() {
		call, cancel := context.WithTimeout(ctx, directTimeout)
		defer cancel()
		if err = d.Publish(call, fires); err == nil {
			return
		}
	}
	dropped := d.unsent.add(fires)
	d.opts.Logger.Debug().
		Err(err).
		Int("fires", len(fires)).
		Int("dropped", dropped).
		Msg("express tasks unsent, what is dropped the sweep will find")
}

// Publish publishes the tasks of fires, in their order, and returns when the bus confirmed all, or
// with an error after which any of them may be missing.
func (d *Dispatcher) Publish(ctx context.Context, fires []timer.Fire) error {
	late := d.opts.Now().Add(-LateAfter).UnixMilli()
	var high, normal, low []bus.Message
	for i := range fires {
		f := &fires[i]
		m := bus.Message{Payload: taskwire.Encode(f)}
		switch {
		case f.RunAtMS < late, f.UsesLowPriorityTopic():
			low = append(low, m)
		case f.PriorityLevel == timer.LevelHigh:
			high = append(high, m)
		default:
			normal = append(normal, m)
		}
	}
	return errors.Join(
		d.send(ctx, bus.TasksHigh, high),
		d.send(ctx, bus.TasksNormal, normal),
		d.send(ctx, bus.TasksLow, low),
	)
}

// PublishLow is Publish by the priority that gives way, whatever the fires' own is. The task alone
// goes there: whoever claims its fire finds it as it was.
func (d *Dispatcher) PublishLow(ctx context.Context, fires []timer.Fire) error {
	msgs := make([]bus.Message, len(fires))
	for i := range fires {
		msgs[i].Payload = taskwire.Encode(&fires[i])
	}
	return d.send(ctx, bus.TasksLow, msgs)
}

func (d *Dispatcher) send(ctx context.Context, topic bus.Topic, msgs []bus.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	result := "ok"
	err := d.opts.Bus.Publish(ctx, topic, msgs...)
	if err != nil {
		result = "unconfirmed"
	}
	d.published.WithLabelValues(string(topic), result).Add(float64(len(msgs)))
	return err //nolint:wrapcheck // the bus says which topic
}
