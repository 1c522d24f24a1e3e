package dispatch

import (
	"context"
	"slices"
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

// Timing of window entries and tasks.
const (
	// DefaultDispatchLead is how long before their run time triggers publish tasks.
	DefaultDispatchLead = 2 * time.Second
	// DirectDispatchSlack is the time that a window entry needs to arrive. A fire due sooner than
	// dispatch lead plus slack is published by the process that committed it.
	DirectDispatchSlack = 3 * time.Second
	// LateAfter is how far past its run time a fire is catch-up. Catch-up goes to the low-priority
	// topic, like a backfill, and never delays on-time traffic.
	LateAfter = 5 * time.Second

	// windowAhead is how far ahead fires enter the window. Later ones are read from the store when
	// their minute begins.
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
	opts    Options
	unsent  map[bus.Topic]*unsent // tasks, by topic; the map is never changed
	entries *unsent               // of the window

	entriesTotal *prometheus.CounterVec
	published    *prometheus.CounterVec
}

// New returns a dispatcher.
func New(opts Options) (*Dispatcher, error) {
	options.Default(&opts.DispatchLead, DefaultDispatchLead)
	if err := opts.validate(); err != nil {
		return nil, err
	}
	tasks := make(map[bus.Topic]*unsent)
	for _, topic := range taskTopics() {
		tasks[topic] = newUnsent()
	}
	f := promauto.With(opts.Registerer)
	return &Dispatcher{
		opts: opts, unsent: tasks, entries: newUnsent(),
		entriesTotal: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_window_entries_total",
			Help: "Committed fires put into the window, by result. Lost ones are put again once it is back, unless they are due before.",
		}, []string{"result"}),
		published: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_tasks_published_total", Help: "Tasks published, by topic and result.",
		}, []string{"topic", "result"}),
	}, nil
}

// Committed puts fires into the window, and publishes those due too soon for a window entry. It
// returns when both are done or have timed out (2 s), without an error, because the rows are
// committed. Run does what Committed could not. While the window, or a topic, takes nothing of
// that, Committed leaves more of its fires to Run without waiting.
func (d *Dispatcher) Committed(ctx context.Context, fires []timer.Fire) {
	if len(fires) == 0 {
		return
	}
	// The fires are committed even if the caller's request is cancelled after its answer.
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
		d.putEntries(ctx, entries, direct)
	}
	wg.Wait()
}

// putEntries puts fires into the window, or leaves those to Run that it does not take and that are not
// published either, from directMS on. While the window is known to be unavailable, it does not wait.
func (d *Dispatcher) putEntries(ctx context.Context, fires []timer.Fire, directMS int64) {
	var err error
	if !d.entries.unavailable() {
		call, cancel := context.WithTimeout(ctx, windowTimeout)
		defer cancel()
		if err = d.opts.Window.Put(call, fires); err == nil {
			d.entriesTotal.WithLabelValues("ok").Add(float64(len(fires)))
			return
		}
	}
	d.entriesTotal.WithLabelValues("lost").Add(float64(len(fires)))
	fires = slices.DeleteFunc(fires, func(f timer.Fire) bool { return f.RunAtMS < directMS })
	if len(fires) == 0 {
		if err != nil {
			d.entries.refused()
		}
		return
	}
	dropped := d.entries.add(fires)
	d.opts.Logger.Debug().
		Err(err).
		Int("fires", len(fires)).
		Int("dropped", dropped).
		Msg("fires not put into the window, queued for retry; dropped ones left to executors")
}

// direct publishes fires, each on its topic, or leaves to Run those whose topic does not take them.
func (d *Dispatcher) direct(ctx context.Context, fires []timer.Fire) {
	_ = d.byTopic(ctx, fires, (*Dispatcher).directOn) // it returns none
}

// directOn publishes fires on a topic, or leaves them to Run if it does not take them. While the
// topic is known to be unavailable, it does not wait. Two calls at once may both wait for a topic
// that has become unavailable. The error is always nil.
func (d *Dispatcher) directOn(ctx context.Context, topic bus.Topic, fires []timer.Fire) error {
	var err error
	q := d.unsent[topic]
	if !q.unavailable() {
		call, cancel := context.WithTimeout(ctx, directTimeout)
		defer cancel()
		if err = d.send(call, topic, fires, timer.PathDirect); err == nil {
			return nil
		}
	}
	dropped := q.add(fires)
	d.opts.Logger.Debug().
		Err(err).
		Str("topic", string(topic)).
		Int("fires", len(fires)).
		Int("dropped", dropped).
		Msg("tasks not published, queued for retry; dropped ones left to executors")
	return nil
}

// Publish publishes the tasks of a slice's fires, in their order on each topic. It returns nil once
// the bus has confirmed all of them. After an error any of them may be missing. A caller that
// publishes the fires of one topic at a time therefore repeats nothing that another topic has
// taken.
func (d *Dispatcher) Publish(ctx context.Context, fires []timer.Fire) error {
	return d.byTopic(ctx, fires, (*Dispatcher).sendOfSlice)
}

// PublishLow publishes a slice's tasks on the low-priority topic, whatever the priority of their fires. The
// fires themselves are unchanged.
func (d *Dispatcher) PublishLow(ctx context.Context, fires []timer.Fire) error {
	return d.sendOfSlice(ctx, bus.TasksLow, fires)
}

func (d *Dispatcher) sendOfSlice(ctx context.Context, topic bus.Topic, fires []timer.Fire) error {
	return d.send(ctx, topic, fires, timer.PathSlice)
}

// send publishes the tasks of fires on a topic. It is repeated with all of them after an error. A
// task published twice, or by two processes at once, is claimed once; one that was lost is found by
// executors.
func (d *Dispatcher) send(
	ctx context.Context, topic bus.Topic, fires []timer.Fire, path timer.Path,
) error {
	msgs := make([]bus.Message, len(fires))
	now := d.opts.Now() // executors tell the age of tasks by the store's clock
	for i := range fires {
		msgs[i].Payload, msgs[i].Published = taskwire.EncodeTask(&fires[i], path), now
	}
	result := "ok"
	err := d.opts.Bus.Publish(ctx, topic, msgs...)
	if err != nil {
		result = "unconfirmed"
	}
	d.published.WithLabelValues(string(topic), result).Add(float64(len(msgs)))
	return err //nolint:wrapcheck // the bus names the topic
}
