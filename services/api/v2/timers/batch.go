package timers

import (
	"context"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/v2/param"
	"github.com/carillon-timer/carillon/services/api/v2/schedules"
)

// batchConcurrency limits how many items with put are checked and written at once. Items that are
// written at once share transactions, see package writes.
const batchConcurrency = 500

// warnTime limits how long a batch looks for warnings.
const warnTime = time.Second

// checkConcurrency limits how many items are checked at once. Some need calendars of the store.
const checkConcurrency = 16

type batchInput struct {
	param.DryRunParam
	Body batchBody
}

type batchBody struct {
	Items []newTimerBody `json:"items" nullable:"false" minItems:"1" maxItems:"1000" doc:"The timers, each with a name of its own. The whole body has at most 2 MiB."`
	Put   bool           `json:"put,omitempty" doc:"Give timers that exist these definitions, as PUT does. Where it is left out, a timer that exists with another definition makes its item fail."`
}

type batchOutput struct{ Body batchResults }

type batchResults struct {
	DryRun  bool          `json:"dry_run,omitempty" doc:"Nothing was written."`
	Created int           `json:"created" doc:"Timers that were created."`
	Existed int           `json:"existed" doc:"Timers that existed. With put, they have the definition now."`
	Failed  int           `json:"failed" doc:"Items that wrote nothing, or may have: see their errors."`
	Items   []batchResult `json:"items" nullable:"false" doc:"A result for each item, in their order."`
}

type batchResult struct {
	App      string                  `json:"app"`
	Name     string                  `json:"name"`
	Result   string                  `json:"result" enum:"created,existed,failed" doc:"What became of it."`
	ID       string                  `json:"id,omitempty" doc:"The timer's id; absent if it failed, and of a timer that a dry run does not create."`
	Version  int32                   `json:"version,omitempty" doc:"Of the definition; absent if it failed."`
	Warnings []schedules.WarningBody `json:"warnings,omitempty" nullable:"false" doc:"What the timer will not do as one may expect, as in the answer to a request of its own. The batch looks for warnings for a second at most."`
	Error    *huma.ErrorModel        `json:"error,omitempty" doc:"Why it failed, as the answer to a request of its own would say. After a 503 the write may have happened: send the item again."`
}

// batchTimers creates many timers. Each item is written or fails by itself. If the process dies
// halfway, some are written; the same request again finds them and writes the rest.
func (s *Resource) batchTimers(ctx context.Context, in *batchInput) (*batchOutput, error) {
	items := in.Body.Items
	if err := s.checkBatch(ctx, items); err != nil {
		return nil, err
	}
	out := &batchOutput{batchResults{DryRun: in.DryRun}}
	if in.Body.Put {
		out.Body.Items = s.putItems(ctx, items)
	} else {
		out.Body.Items = s.createItems(ctx, items)
	}
	for i := range out.Body.Items {
		if in.DryRun && out.Body.Items[i].Result == resultCreated {
			out.Body.Items[i].ID = ""
		}
		switch out.Body.Items[i].Result {
		case resultCreated:
			out.Body.Created++
		case resultExisted:
			out.Body.Existed++
		default:
			out.Body.Failed++
		}
	}
	return out, nil
}

// The results of an item.
const (
	resultCreated = "created"
	resultExisted = "existed"
	resultFailed  = "failed"
)

// checkBatch refuses a whole batch that names an app of others, or a timer twice.
func (s *Resource) checkBatch(ctx context.Context, items []newTimerBody) error {
	apps := make(map[string]bool)
	seen := make(map[[2]string]int)
	for i := range items {
		b := &items[i]
		if !apps[b.App] {
			if err := s.Auth.AuthorizeApp(ctx, b.App); err != nil {
				return err
			}
			apps[b.App] = true
		}
		if first, ok := seen[[2]string{b.App, b.Name}]; ok {
			return timer.Invalid(
				fmt.Sprintf("items[%d].name", i),
				fmt.Sprintf("expected each timer once, found %q as item %d too", b.Name, first),
			)
		}
		seen[[2]string{b.App, b.Name}] = i
	}
	return nil
}

// createItems checks all items, then creates the good ones in as few transactions as possible.
func (s *Resource) createItems(ctx context.Context, items []newTimerBody) []batchResult {
	results, timers := make([]batchResult, len(items)), make([]timer.Timer, len(items))
	checked := make([]store.NewTimer, len(items))
	eachItem(len(items), checkConcurrency, func(i int) {
		var err error
		if checked[i], err = s.newTimer(ctx, &items[i], "", nil); err != nil {
			results[i] = s.batchResult(ctx, &items[i], nil, false, err)
		}
	})
	var good []store.NewTimer
	var places []int // of the good ones in items
	for i := range items {
		if results[i].Error == nil {
			good, places = append(good, checked[i]), append(places, i)
		}
	}
	for n, c := range s.Writer.CreateAll(ctx, good) {
		i := places[n]
		results[i] = s.batchResult(ctx, &items[i], &c.Timer, !c.Existing, c.Err)
		timers[i] = c.Timer
	}
	s.warnItems(ctx, results, timers)
	return results
}

// putItems creates or edits each item by itself.
func (s *Resource) putItems(ctx context.Context, items []newTimerBody) []batchResult {
	results, timers := make([]batchResult, len(items)), make([]timer.Timer, len(items))
	eachItem(len(items), batchConcurrency, func(i int) {
		t, created, err := s.putItem(ctx, &items[i])
		results[i] = s.batchResult(ctx, &items[i], &t, created, err)
		timers[i] = t
	})
	s.warnItems(ctx, results, timers)
	return results
}

func (s *Resource) putItem(
	ctx context.Context,
	b *newTimerBody,
) (t timer.Timer, created bool, err error) {
	stored, err := s.redactedFrom(ctx, b)
	if err != nil {
		return t, false, err
	}
	n, err := s.newTimer(ctx, b, "", definitionOf(stored))
	if err != nil {
		return t, false, err
	}
	if stored != nil {
		t, err = s.putRedacted(ctx, b, n, stored, &condition{any: true})
		return t, false, err
	}
	return s.put(ctx, n, timer.Status(b.Status))
}

// eachItem calls do for 0 to n-1, up to limit at once.
func eachItem(n, limit int, do func(i int)) {
	var eg errgroup.Group
	eg.SetLimit(limit)
	for i := range n {
		eg.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = eg.Wait() // do has the errors
}

// batchResult says what became of an item.
func (s *Resource) batchResult(
	ctx context.Context, b *newTimerBody, t *timer.Timer, created bool, err error,
) batchResult {
	r := batchResult{App: b.App, Name: b.Name, Result: resultExisted}
	if err != nil {
		r.Result, r.Error = resultFailed, s.Definitions.Problems.Model(ctx, err)
		return r
	}
	if created {
		r.Result = resultCreated
	}
	r.ID, r.Version = t.ID.String(), t.Version
	return r
}

// warnItems adds the warnings of items. A warning may need a search through all years, and one about
// max_fires a read. So the items that are left after warnTime, or once the caller has gone, get none.
func (s *Resource) warnItems(ctx context.Context, results []batchResult, timers []timer.Timer) {
	ctx, cancel := context.WithTimeout(ctx, warnTime)
	defer cancel()
	for i := range timers {
		t := &timers[i]
		if ctx.Err() != nil {
			return
		}
		if results[i].Error != nil {
			continue
		}
		next := t.NextDueMS
		if store.AllCreated(t) {
			var err error
			if next, err = s.Upcoming.NextDue(ctx, t); err != nil {
				continue // it is written; nobody knows what it lacks
			}
		}
		results[i].Warnings = s.warnings(t, next)
	}
}
