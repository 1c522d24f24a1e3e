package history

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/problem"
)

const (
	// pollInterval is how often the newest outcomes of an app are read while it has streams.
	pollInterval = 500 * time.Millisecond
	// pollOverlap is how far back each poll reads again. Nearly all outcomes are committed by then.
	pollOverlap = time.Second
	// rescanInterval is how often the outcomes of store.VisibilityDelay are read again. Any later
	// commit is an exception, such as the end of an outage of the database.
	rescanInterval = 5 * time.Second
	// cheapRescan is the number of outcomes up to which each poll is a rescan.
	cheapRescan = 1000
	pollTimeout = 5 * time.Second
	// maxRecent is how many outcomes a feed keeps for its streams.
	maxRecent = 16_384
	// appShare is the part of all streams that one app may have: 1/4.
	appShare = 4
)

// feeds has the feeds of the apps that have streams.
type feeds struct {
	opts Options
	open prometheus.Gauge

	mu      sync.Mutex
	byApp   map[string]*feed
	streams int
}

func newFeeds(opts Options) *feeds {
	return &feeds{
		opts: opts,
		open: promauto.With(opts.Registerer).NewGauge(prometheus.GaugeOpts{
			Name: "carillon_api_event_streams",
			Help: "Open streams of outcome events.",
		}),
		byApp: map[string]*feed{},
	}
}

// join returns the feed of an app for a new stream, which leaves it in the end.
func (f *feeds) join(app string) (*feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.byApp[app]
	if f.streams >= f.opts.MaxStreams {
		return nil, problem.Busy(fmt.Sprintf(
			"this process has %d streams, and may have no more: close one, or repeat the request later",
			f.streams,
		))
	}
	if most := max(f.opts.MaxStreams/appShare, 1); of != nil && of.streams >= most {
		return nil, problem.Busy(fmt.Sprintf(
			"this process has %d streams of the app, and may have no more: close one, or repeat the request later",
			most,
		))
	}
	if of == nil {
		of = newFeed(app, f.opts)
		f.byApp[app] = of
	}
	of.streams++
	f.streams++
	f.open.Set(float64(f.streams))
	return of, nil
}

// leave ends the part of a stream in a feed. The last stream of an app removes its feed.
func (f *feeds) leave(of *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if of.streams--; of.streams == 0 {
		delete(f.byApp, of.app)
	}
	f.streams--
	f.open.Set(float64(f.streams))
}

// feed reads the outcomes of an app as they are committed, for all of its streams. It has no
// goroutine: the streams poll in turns. Each outcome is in it once, in the order in which it was
// found, which is nearly that of positions.
type feed struct {
	app     string
	store   store.AppHistory
	now     func() time.Time
	streams int // guarded by feeds.mu

	polling  sync.Mutex             // held while one stream polls; guards what follows
	polledAt time.Time              // when the last poll began
	rescanAt time.Time              // when the last rescan began
	pollMS   int64                  // begin of the last poll that succeeded, by the store's clock; 0: none
	rescanMS int64                  // begin of the last rescan that succeeded, likewise
	cheap    bool                   // the last rescan read few outcomes
	seen     map[timer.FireID]int64 // when they finished; older ones are not read again

	mu      sync.Mutex
	recent  []timer.Outcome
	first   int64         // number of the first of recent; numbers only grow
	changed chan struct{} // closed at the next change
	safeMS  int64         // rescanMS, for streams
}

func newFeed(app string, opts Options) *feed {
	return &feed{
		app:     app,
		store:   opts.Store,
		now:     opts.Now,
		seen:    map[timer.FireID]int64{},
		changed: make(chan struct{}),
	}
}

// start makes sure that the feed has begun. What was committed before is not in it.
func (f *feed) start(ctx context.Context) error {
	f.polling.Lock()
	defer f.polling.Unlock()
	if f.rescanMS != 0 {
		return nil
	}
	return f.rescan(ctx)
}

// poll reads new outcomes, unless another stream does or has just done so. An error is repaired by
// a later poll, which reads from the last success on.
func (f *feed) poll(ctx context.Context) error {
	if !f.polling.TryLock() {
		return nil
	}
	defer f.polling.Unlock()
	if time.Since(f.polledAt) < pollInterval {
		return nil
	}
	f.polledAt = time.Now()
	if f.cheap || time.Since(f.rescanAt) >= rescanInterval {
		return f.rescan(ctx)
	}
	begin := f.now().UnixMilli()
	if _, err := f.scan(ctx, f.pollMS-pollOverlap.Milliseconds()); err != nil {
		return err
	}
	f.pollMS = begin
	return nil
}

// rescan reads all outcomes that may have been committed since the last rescan. Those were not
// finished earlier than store.VisibilityDelay before it. The caller holds polling.
func (f *feed) rescan(ctx context.Context) error {
	f.rescanAt = time.Now()
	begin := f.now().UnixMilli()
	last := f.rescanMS
	if last == 0 {
		last = begin
	}
	from := last - store.VisibilityDelay.Milliseconds()
	n, err := f.scan(ctx, from)
	if err != nil {
		return err
	}
	f.cheap = n <= cheapRescan
	f.pollMS, f.rescanMS = begin, begin
	for id, finishedMS := range f.seen {
		if finishedMS < from {
			delete(f.seen, id)
		}
	}
	f.mu.Lock()
	f.safeMS = begin
	f.mu.Unlock()
	return nil
}

// scan reads what finished at fromMS or later, and adds what is new.
func (f *feed) scan(ctx context.Context, fromMS int64) (read int, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	q := store.OutcomeQuery{
		App: f.app, FromMS: fromMS, Ascending: true,
		ScanLimit: store.MaxBatch, Limit: store.MaxBatch,
	}
	for {
		page, err := f.store.Outcomes(ctx, q)
		if err != nil {
			return read, err //nolint:wrapcheck // the store says what it was doing
		}
		read += len(page.Outcomes)
		var added []timer.Outcome
		for i := range page.Outcomes {
			o := &page.Outcomes[i]
			if _, ok := f.seen[o.FireID]; !ok {
				f.seen[o.FireID] = o.FinishedMS
				added = append(added, *o)
			}
		}
		if f.rescanMS != 0 { // otherwise they were there before the feed
			f.add(added)
		}
		if q.After = page.Next; q.After == (store.OutcomePosition{}) {
			return read, nil
		}
	}
}

func (f *feed) add(outcomes []timer.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent = append(f.recent, outcomes...)
	if over := len(f.recent) - maxRecent; over > 0 {
		f.recent = slices.Clone(f.recent[over:])
		f.first += int64(over)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// feedPage is what a feed has from a number on.
type feedPage struct {
	outcomes []timer.Outcome
	// safeMS is the begin of the last rescan: all that it found is in the feed.
	safeMS  int64
	changed <-chan struct{} // closed when there is more
}

// after returns up to limit outcomes from a number on. ok is false if the feed no longer has it.
func (f *feed) after(next int64, limit int) (page feedPage, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if next < f.first {
		return page, false
	}
	out := f.recent[next-f.first:]
	return feedPage{slices.Clone(out[:min(len(out), limit)]), f.safeMS, f.changed}, true
}

// end returns the number of the next outcome, and the begin of the last rescan.
func (f *feed) end() (next, safeMS int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first + int64(len(f.recent)), f.safeMS
}
