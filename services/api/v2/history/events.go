package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/requests"
	"github.com/carillon-timer/carillon/services/api/v2/param"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

const (
	// resumeOverlap is how far before its last event a stream is resumed. An outcome that finished
	// earlier was committed and found before the client got that event.
	resumeOverlap = store.VisibilityDelay + rescanInterval
	heartbeat     = 15 * time.Second
	writeTimeout  = 10 * time.Second
	// maxStreamAge is when a stream ends and its client resumes it. By then it may have lost a right
	// that StillAdmitted does not look at, such as the app.
	maxStreamAge = 10 * time.Minute
	// maxAhead is how far ahead of this clock a caller's may be.
	maxAhead = time.Minute
	// reconnectMS is how long a client waits before it resumes a stream.
	reconnectMS = 1000
)

type eventsInput struct {
	param.PathAppParam
	FilterParam
	LastEventID string `header:"Last-Event-ID" maxLength:"256" doc:"The id of the last event that the client got: the stream goes on there. Events of the last 20 s before it are repeated, because outcomes are not committed in the order in which they finished."`
	From        string `query:"from" maxLength:"40" doc:"Begin with the fires that finished at this instant (RFC 3339), which has passed. Without it and Last-Event-ID, the stream begins now. Last-Event-ID goes before."`
	Follow      bool   `query:"follow" default:"true" doc:"Whether the stream goes on with the fires that finish later. With false it ends after those that have finished."`
}

// events answers with a stream. All checks are done before, so that errors have their status.
func (s *Resource) events(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err //nolint:wrapcheck // it is the answer
	}
	f, err := s.filter(ctx, in.App, &in.FilterParam)
	if err != nil {
		return nil, err
	}
	from, err := s.begin(in)
	if err != nil {
		return nil, err
	}
	feed, err := s.feeds.join(in.App)
	if err != nil {
		return nil, err
	}
	if err := feed.start(ctx); err != nil {
		s.feeds.leave(feed)
		return nil, fmt.Errorf("reading the outcomes of an app: %w", err)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer s.feeds.leave(feed)
		ctx, cancel := requests.Unlimited(c.Context())
		defer cancel()
		w, ok := c.BodyWriter().(http.ResponseWriter)
		if !ok {
			return
		}
		st := &stream{
			resource: s,
			app:      in.App,
			follow:   in.Follow,
			filter:   f,
			labels:   newLabelMatcher(s.Store, f.labels),
			names:    newNamer(s.Store),
			feed:     feed,
			w:        w,
			control:  http.NewResponseController(w),
		}
		st.next, st.safeMS = feed.end()
		st.begin(c)
		if c.Method() == http.MethodHead {
			return
		}
		// An error is a client that is gone, or a store that is unavailable: the client resumes.
		err := st.run(ctx, from)
		if err != nil && ctx.Err() == nil {
			s.Logger.Debug().Err(err).Msg("event stream ended")
		}
		if err != nil && !in.Follow {
			panic(http.ErrAbortHandler) // a proper end would say that this was all
		}
	}}, nil
}

// begin returns the instant from which a stream sends what is in the store, 0: only what comes.
func (s *Resource) begin(in *eventsInput) (fromMS int64, err error) {
	if in.LastEventID != "" {
		p, err := decodePosition(in.LastEventID)
		if err != nil {
			return 0, timer.Invalid("header.Last-Event-ID",
				"expected the id of an event of this stream, found another text: pass it as it was")
		}
		return max(p.FinishedMS-resumeOverlap.Milliseconds(), 1), nil
	}
	var r input.BodyReader
	if at := r.Instant("query.from", in.From); at != nil {
		fromMS = max(input.CeilMS(*at), 1)
		if at.After(s.Now().Add(maxAhead)) {
			r.Invalid(
				"query.from",
				"expected an instant that has passed: leave it out to begin now",
			)
		}
	}
	if len(r.Errs) > 0 {
		return 0, s.Problems.Invalid(r.Errs) //nolint:wrapcheck // it is the answer
	}
	return fromMS, nil
}

// stream is the stream of one client, in the goroutine of its request.
type stream struct {
	resource *Resource
	app      string
	follow   bool // with what comes
	filter   *filter
	labels   *labelMatcher
	names    *namer
	feed     *feed
	next     int64 // number in the feed
	// safeMS is the begin of the last rescan of the feed of which the client got everything.
	safeMS int64
	// sent has the outcomes that were read from the store and may be in the feed, too.
	sent   map[timer.FireID]bool
	sentAt time.Time // when sent was complete

	w       http.ResponseWriter
	control *http.ResponseController
	wrote   time.Time   // the last time
	age     *time.Timer // ends after maxStreamAge

	admitted time.Time // when the caller was last known to be admitted
}

// errOld ends a stream after maxStreamAge.
var errOld = errors.New("the stream is old")

// begin sends the headers. The server's deadlines are for requests, so they are taken off; each
// write gets its own.
func (s *stream) begin(c huma.Context) {
	_ = s.control.SetReadDeadline(time.Time{}) // a test recorder has none
	c.SetHeader("Content-Type", route.StreamType)
	c.SetHeader("Cache-Control", "no-store")
	c.SetHeader("X-Accel-Buffering", "no") // nginx would hold events back
	c.SetStatus(http.StatusOK)
}

// run sends events until the client disconnects, the server stops, or the stream is old or does not
// follow. What the store has from fromMS on is sent first, in order of position. The feed began
// before, so what is committed meanwhile is in one of the two.
func (s *stream) run(ctx context.Context, fromMS int64) error {
	s.admitted = time.Now()
	s.age = time.NewTimer(maxStreamAge)
	defer s.age.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	first := fmt.Appendf(nil, "retry: %d\n", reconnectMS)
	if fromMS == 0 { // otherwise the client keeps the position that it has
		first = s.appendID(first, store.OutcomePosition{FinishedMS: s.safeMS})
	}
	err := s.write(append(first, '\n'))
	if err == nil && fromMS != 0 {
		err = s.replay(ctx, fromMS)
	}
	for s.follow && err == nil {
		if err := s.stillAdmitted(ctx); err != nil {
			return err
		}
		if err := s.ended(ctx); err != nil {
			return err
		}
		page, ok := s.feed.after(s.next, store.MaxBatch)
		switch {
		case !ok: // the client is slower than the app
			from := s.safeMS - resumeOverlap.Milliseconds()
			s.next, s.safeMS = s.feed.end()
			err = s.replay(ctx, from) // an error ends the stream, so its client resumes before it
			continue
		case len(page.outcomes) > 0:
			s.next += int64(len(page.outcomes))
			err = s.send(ctx, s.notSent(page.outcomes))
			continue
		}
		s.safeMS = page.safeMS
		select {
		case <-page.changed:
		case <-poll.C:
			if failed := s.feed.poll(ctx); failed != nil && ctx.Err() == nil {
				s.resource.Logger.Debug().Err(failed).Msg("outcomes not read")
			}
		case <-beat.C:
			err = s.beat(store.OutcomePosition{FinishedMS: s.safeMS})
		case <-ctx.Done():
		case <-process.Stopping(ctx):
		case <-s.age.C:
			return errOld
		}
	}
	return err
}

// ended returns why a stream ends that may always have something to send.
func (s *stream) ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the client is gone
	case <-process.Stopping(ctx):
		return process.ErrStopping
	case <-s.age.C:
		return errOld
	default:
		return nil
	}
}

// replay sends what the store has from an instant on. While nothing is selected it sends heartbeats
// with the position so far, so that a client neither gives up nor begins again.
func (s *stream) replay(ctx context.Context, fromMS int64) error {
	q := store.OutcomeQuery{
		OutcomeFilter: s.filter.OutcomeFilter,
		App:           s.app, FromMS: fromMS, Ascending: true,
		ScanLimit: ScanLimit, Limit: store.MaxBatch,
	}
	s.sent = map[timer.FireID]bool{}
	for {
		if err := s.stillAdmitted(ctx); err != nil {
			return err
		}
		page, err := s.resource.Store.Outcomes(ctx, q)
		if err != nil {
			return fmt.Errorf("reading the outcomes of an app: %w", err)
		}
		for i := range page.Outcomes {
			if o := &page.Outcomes[i]; o.FinishedMS >= s.safeMS-resumeOverlap.Milliseconds() {
				s.sent[o.FireID] = true
			}
		}
		if err := s.send(ctx, page.Outcomes); err != nil {
			return err
		}
		if q.After = page.Next; q.After == (store.OutcomePosition{}) {
			s.sentAt = time.Now()
			return nil
		}
		if time.Since(s.wrote) >= heartbeat {
			if err := s.beat(q.After); err != nil {
				return err
			}
		}
		if err := s.ended(ctx); err != nil {
			return err
		}
	}
}

// stillAdmitted identifies the caller again when a heartbeat has passed, however busy the stream is:
// its key may be revoked since.
func (s *stream) stillAdmitted(ctx context.Context) error {
	if time.Since(s.admitted) < heartbeat {
		return nil
	}
	s.admitted = time.Now()
	return s.resource.Auth.StillAdmitted(ctx) //nolint:wrapcheck // it says what is wrong
}

// beat sends a heartbeat with the id from which a client resumes.
func (s *stream) beat(p store.OutcomePosition) error {
	line := s.appendID([]byte(": heartbeat\n"), p)
	return s.write(append(line, '\n'))
}

// notSent leaves out what replay has sent. A minute later the feed has none of it anymore.
func (s *stream) notSent(outcomes []timer.Outcome) []timer.Outcome {
	if s.sent != nil && time.Since(s.sentAt) > time.Minute {
		s.sent = nil
	}
	return slices.DeleteFunc(outcomes, func(o timer.Outcome) bool { return s.sent[o.FireID] })
}

// send sends those of the outcomes that the client selects.
func (s *stream) send(ctx context.Context, outcomes []timer.Outcome) error {
	outcomes = slices.DeleteFunc(slices.Clone(outcomes), func(o timer.Outcome) bool {
		return !s.filter.Matches(&o)
	})
	outcomes, err := s.labels.keep(ctx, outcomes)
	if err != nil || len(outcomes) == 0 {
		return err
	}
	shown, err := s.names.show(ctx, outcomes)
	if err != nil {
		return err
	}
	var b []byte
	for i := range shown {
		data, err := json.Marshal(&shown[i])
		if err != nil {
			return fmt.Errorf("encoding an event: %w", err)
		}
		b = s.appendID(b, store.PositionOf(&outcomes[i]))
		b = append(append(append(b, "event: outcome\ndata: "...), data...), "\n\n"...)
	}
	return s.write(b)
}

// appendID adds the id from which a client resumes. It is no later than what the rescan of safeMS
// covers: an outcome that the client has not got may have finished resumeOverlap before.
func (s *stream) appendID(b []byte, p store.OutcomePosition) []byte {
	if latest := s.safeMS + rescanInterval.Milliseconds(); p.FinishedMS > latest {
		p = store.OutcomePosition{FinishedMS: latest}
	}
	return append(append(append(b, "id: "...), encodePosition(p)...), '\n')
}

// write sends text to the client at once.
func (s *stream) write(text []byte) error {
	// A test recorder has no deadline.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write(text); err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("flushing an event: %w", err)
	}
	s.wrote = time.Now()
	return nil
}
