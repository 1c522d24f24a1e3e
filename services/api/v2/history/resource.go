package history

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/requests"
	"github.com/carillon-timer/carillon/services/api/upcoming"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// Store is the part of the store that the history of apps needs.
type Store interface {
	store.AppHistory
	store.States
	store.Definitions
	TimerByName(ctx context.Context, app, name string) (timer.Timer, error)
	Search(ctx context.Context, q store.SearchQuery) (store.SearchPage, error)
	Count(ctx context.Context, q store.SearchQuery) (store.SearchCount, error)
}

// Options are the dependencies of the operations.
type Options struct {
	Store      Store
	Auth       *auth.Checker
	Problems   *problem.Reporter
	Upcoming   *upcoming.Finder
	Now        func() time.Time // the store's clock, as this process measures it
	MaxStreams int              // open streams of events
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Resource is the operations on the history of apps.
type Resource struct {
	Options

	feeds    *feeds
	counting requests.Slots // of requests that read much

	maxTimers int // that the expected load examines
}

// maxCounting limits the requests for statistics and expected load at once. Others wait for countWait,
// so that a few viewers of the page do not refuse each other.
const (
	maxCounting = 4
	countWait   = 2 * time.Second
)

// New returns the operations on the history of apps.
func New(opts Options) *Resource {
	return &Resource{
		Options:  opts,
		feeds:    newFeeds(opts),
		counting: requests.NewSlots(maxCounting),

		maxTimers: maxTimers,
	}
}

// Register adds the operations to r.
func (s *Resource) Register(r *route.Router) {
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}/fires", ID: "list-app-fires",
		Summary: "List the finished fires of an app, the newest first",
	}, s.listFires)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}/stats", ID: "get-app-stats",
		Summary: "Count an app's finished fires by minute, quarter or hour, with their lateness",
	}, s.stats)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}/upcoming", ID: "get-app-upcoming",
		Summary: "Show how many fires of an app are due in each minute to come",
	}, s.upcoming)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}/events", ID: "stream-app-events",
		Summary: "Stream the outcomes of an app as they are recorded, as server-sent events",
		Stream:  AppFireBody{},
	}, s.events)
}

// count calls do in one of a few slots, because it reads much.
func (s *Resource) count(ctx context.Context, do func() error) error {
	if !s.counting.Acquire(ctx, countWait) {
		return problem.Busy("enough statistics are being computed: repeat the request later")
	}
	defer s.counting.Release()
	return do()
}
