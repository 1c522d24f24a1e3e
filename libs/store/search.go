package store

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Searcher finds timers of an app: S34. It takes no locks.
type Searcher interface {
	// Search returns a page of the timers that a filter selects. A page may be short, or empty,
	// although there are more: a call examines a bounded number of timers. SearchPage.More tells.
	// Error: invalid (the order is not known: see [SortLastFired]).
	Search(ctx context.Context, q SearchQuery) (SearchPage, error)
	// Count counts the timers that a filter selects, up to q.Limit. It ignores q.Sort, q.Desc and
	// q.After.
	Count(ctx context.Context, q SearchQuery) (SearchCount, error)
	// LastOutcomes returns the latest outcome of timers, by due instant, then by series. Those of
	// superseded fires do not count: an edit ends fires of the old version that would have been due
	// later. It leaves out timers without one. Deleted timers have theirs, too.
	LastOutcomes(ctx context.Context, ids []timer.ID) (map[timer.ID]timer.Outcome, error)
}

// Filter selects timers of an app. Empty fields select all. Deleted timers are never selected.
type Filter struct {
	App          string            `json:"app"`
	Status       timer.Status      `json:"status,omitempty"` // not StatusDeleted
	Labels       selector.Selector `json:"labels,omitempty"` // of the present version
	NamePrefix   string            `json:"name_prefix,omitempty"`
	NameContains string            `json:"name_contains,omitempty"` // compares bytes, with their case
	// TargetHost is the host of a target, as [TargetHosts] returns it.
	TargetHost string `json:"target_host,omitempty"`
	// DueFromMS and DueToMS select timers whose next due instant lies between them. DueFromMS is
	// included, DueToMS is excluded, and 0 means no end. A timer without a next due instant is not
	// selected if one of them is set.
	DueFromMS int64 `json:"due_from_ms,omitempty"`
	DueToMS   int64 `json:"due_to_ms,omitempty"`
	// LastOutcome is the kind of the latest outcome, as LastOutcomes returns it, or OutcomeNone.
	LastOutcome timer.OutcomeKind `json:"last_outcome,omitempty"`
}

// OutcomeNone selects timers without an outcome in Filter.LastOutcome. Retention removes outcomes.
const OutcomeNone timer.OutcomeKind = "none"

// ByDue reports whether the filter selects by next due instants.
func (f *Filter) ByDue() bool { return f.DueFromMS != 0 || f.DueToMS != 0 }

// SelectsDue reports whether the filter selects a timer with this next due instant.
func (f *Filter) SelectsDue(dueMS int64) bool {
	return !f.ByDue() || dueMS != timer.NeverMS && dueMS >= f.DueFromMS &&
		(f.DueToMS == 0 || dueMS < f.DueToMS)
}

// SelectsDefinition reports whether the filter selects a timer by status, name, labels and targets.
func (f *Filter) SelectsDefinition(t *timer.Timer) bool {
	return t.App == f.App && t.Status != timer.StatusDeleted &&
		(f.Status == "" || t.Status == f.Status) &&
		strings.HasPrefix(t.Name, f.NamePrefix) && strings.Contains(t.Name, f.NameContains) &&
		f.Labels.Matches(t.Definition.Labels) &&
		(f.TargetHost == "" || slices.Contains(TargetHosts(&t.Definition), f.TargetHost))
}

// Sort is an order of timers. Timers that are equal in it are in order of id, in the same direction.
type Sort string

// The orders.
const (
	SortID   Sort = "" // in order of creation
	SortName Sort = "name"
	// SortNextDue is exact for up to SortExact timers, if the filter is selective. Of more timers,
	// those that are due several times within the time that is expanded ahead (an hour) may come
	// up to that time too late. Timers that are not due come last, also in descending order.
	SortNextDue Sort = "next_due"
	// SortLastFired is by the due instant of the latest outcome, as LastOutcomes returns it. Timers
	// without one come last, also in descending order. A filter that selects more than SortExact
	// timers is invalid, and so is one that no index narrows enough to find that out.
	SortLastFired Sort = "last_fired"
)

// SortExact is how many timers can be sorted by what no index has.
const SortExact = 1000

// NextDueFunc returns the next due instant of a timer, NeverMS if there is none. It may read the
// store.
type NextDueFunc func(ctx context.Context, t *timer.Timer) (int64, error)

// SearchQuery is a search. The caller that reads page by page sets After to the Next of the page
// before, and keeps the rest.
type SearchQuery struct {
	Filter

	Sort  Sort
	Desc  bool
	After SearchPosition // excluded
	Limit int
	// MaxBodyBytes ends a page before the timer whose bodies would exceed it, but not before the
	// first. 0 means no bound.
	MaxBodyBytes int
	// NextDue is required for SortNextDue and for filters by next due instants.
	NextDue NextDueFunc
}

// SearchPosition is a place in an order of timers. The zero position is before the first.
type SearchPosition struct {
	ID   timer.ID
	Name string // of SortName
	AtMS int64  // of SortNextDue and SortLastFired
}

// Fitting returns how many of the timers, in their order, have a place on a page that has taken
// bytes of bodies before, and the bytes with them.
func (q *SearchQuery) Fitting(ts []timer.Timer, taken int) (n, bytes int) {
	for i := range ts {
		size := max(ts[i].Definition.BodyBytes(), 1) // so that taken tells an empty page
		if q.MaxBodyBytes > 0 && taken > 0 && taken+size > q.MaxBodyBytes {
			return i, taken
		}
		taken += size
	}
	return len(ts), taken
}

// Compare compares two positions in the order of the query.
func (q *SearchQuery) Compare(a, b SearchPosition) int {
	byKey := 0
	switch q.Sort {
	case SortID:
	case SortName:
		byKey = cmp.Compare(a.Name, b.Name)
	case SortNextDue, SortLastFired:
		if never := a.AtMS == timer.NeverMS; never != (b.AtMS == timer.NeverMS) {
			if never {
				return 1
			}
			return -1
		}
		byKey = cmp.Compare(a.AtMS, b.AtMS)
	}
	byKey = cmp.Or(byKey, cmp.Compare(a.ID, b.ID))
	if q.Desc {
		return -byKey
	}
	return byKey
}

// Check refuses a query that no store can answer.
func (q *SearchQuery) Check() error {
	switch q.Sort {
	case SortID, SortName, SortNextDue, SortLastFired:
	default:
		return timer.Invalid("sort", fmt.Sprintf("unknown: %q", q.Sort))
	}
	if q.NextDue == nil && (q.ByDue() || q.Sort == SortNextDue) {
		return timer.Invalid("due", "the caller does not compute next due instants")
	}
	return nil
}

// TooManyToSort is the error of a search that selects more timers than can be sorted.
func TooManyToSort() error {
	return timer.Invalid("sort", fmt.Sprintf(
		"expected a filter that selects at most %d timers for this order: narrow it by labels, "+
			"host or prefix of the name, or sort otherwise",
		SortExact,
	))
}

// SearchPage is a page of a search.
type SearchPage struct {
	Timers []timer.Timer
	Next   SearchPosition // where the search continues, if More
	More   bool           // there may be more timers
}

// SearchCount is how many timers a filter selects.
type SearchCount struct {
	N int
	// Minimum is set if there may be more: the limit was reached, or the count would have examined
	// too many timers.
	Minimum bool
}

// TargetHosts returns the hosts of a definition's targets, in lower case and without ports, sorted.
// A target has none if its URL is a template of the host, or is empty.
func TargetHosts(d *timer.Definition) []string {
	targets := d.Targets
	if !d.Several() {
		targets = []timer.Target{d.Target}
	}
	var hosts []string
	for i := range targets {
		// A URL of Pulsar may list brokers.
		scheme, rest, ok := strings.Cut(targets[i].URL, "://")
		if !ok {
			continue
		}
		authority := rest
		if n := strings.IndexAny(rest, "/?#"); n >= 0 {
			authority = rest[:n]
		}
		for broker := range strings.SplitSeq(authority, ",") {
			u, err := url.Parse(scheme + "://" + broker)
			if err != nil || u.Hostname() == "" || len(u.Hostname()) > timer.MaxLabelLen {
				continue
			}
			hosts = append(hosts, HostKey(u.Hostname()))
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// HostKey returns a host as TargetHosts returns it.
func HostKey(host string) string { return strings.ToLower(host) }
