package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// counter counts the fires of one request, from the latest back.
type counter struct {
	store  store.AppHistory
	stepMS int64
	steps  map[int64]*counts // by begin
	total  *counts
	fromMS int64 // the counts are complete from here on
}

// counts are those of one step.
type counts struct {
	byKind   map[timer.OutcomeKind]int64
	byReason map[string]int64
	late     map[int64]int64 // fires that were called, by bucket of lateness
	called   int64
}

func newCounts() *counts {
	return &counts{
		byKind:   map[timer.OutcomeKind]int64{},
		byReason: map[string]int64{},
		late:     map[int64]int64{},
	}
}

// countGroups counts in the store.
func (c *counter) countGroups(ctx context.Context, q store.OutcomeQuery) error {
	q.ScanLimit = countScan
	began := time.Now()
	for range maxCount {
		got, err := c.store.CountOutcomes(ctx, q, c.stepMS)
		if err != nil {
			return fmt.Errorf("counting fires: %w", err)
		}
		for i := range got.Counts {
			c.add(&got.Counts[i])
		}
		c.fromMS, q.ToMS = got.FromMS, got.FromMS
		if got.FromMS <= q.FromMS || time.Since(began) > countFor {
			return nil
		}
	}
	return nil
}

// countRows counts the fires that the matcher keeps. It stops at a whole millisecond, so that a
// further request can count the rest.
func (c *counter) countRows(
	ctx context.Context,
	q store.OutcomeQuery,
	labels *labelMatcher,
) error {
	q.ScanLimit, q.Limit = ScanLimit, store.MaxBatch
	began := time.Now()
	var read []timer.Outcome // and not counted: of the millisecond at which the page ends
	for n := 1; ; n++ {
		page, err := c.store.Outcomes(ctx, q)
		if err != nil {
			return fmt.Errorf("counting fires: %w", err)
		}
		found, err := labels.keep(ctx, page.Outcomes)
		if err != nil {
			return err
		}
		end := page.Next.FinishedMS // 0 after the last page
		read = slices.DeleteFunc(append(read, found...), func(o timer.Outcome) bool {
			if o.FinishedMS > end {
				c.addOutcome(&o)
			}
			return o.FinishedMS > end
		})
		c.fromMS, q.After = end+1, page.Next
		if page.Next == (store.OutcomePosition{}) {
			c.fromMS = q.FromMS
			return nil
		}
		// A further request counts the rest before that, so there must be some progress.
		if (n >= maxLabelRows || time.Since(began) > countFor) && c.fromMS < q.ToMS {
			return nil
		}
	}
}

func (c *counter) addOutcome(o *timer.Outcome) {
	n := store.OutcomeCount{
		StepMS: o.FinishedMS - o.FinishedMS%c.stepMS, Kind: o.Kind, Reason: o.Reason,
		LatenessMS: store.NotCalled, Outcomes: 1, Fires: o.Count,
	}
	if o.Attempts > 0 {
		n.LatenessMS = store.LatenessBucket(o.LatenessMS)
	}
	c.add(&n)
}

func (c *counter) add(n *store.OutcomeCount) {
	step := c.steps[n.StepMS]
	if step == nil {
		step = newCounts()
		c.steps[n.StepMS] = step
	}
	for _, to := range []*counts{step, c.total} {
		to.byKind[n.Kind] += n.Fires
		if n.Reason != timer.ReasonNone {
			to.byReason[string(n.Reason)] += n.Fires
		}
		if n.LatenessMS != store.NotCalled {
			to.late[n.LatenessMS] += n.Outcomes
			to.called += n.Outcomes
		}
	}
}

func (c *counts) body() CountsBody {
	b := CountsBody{
		Delivered: c.byKind[timer.Delivered],
		Failed:    c.byKind[timer.Failed],
		Skipped:   c.byKind[timer.Skipped],
		Reasons:   c.byReason,
	}
	if c.called > 0 {
		buckets := slices.Sorted(maps.Keys(c.late))
		const half, most, nearlyAll = 50, 95, 99
		b.Lateness = &latenessBody{
			P50MS: c.quantile(buckets, half),
			P95MS: c.quantile(buckets, most),
			P99MS: c.quantile(buckets, nearlyAll),
			MaxMS: upper(buckets[len(buckets)-1]),
		}
	}
	return b
}

// quantile returns the lateness that so many percent of the fires do not exceed. buckets are sorted.
func (c *counts) quantile(buckets []int64, percent int64) int64 {
	const all = 100
	rank := (c.called*percent + all - 1) / all
	for _, b := range buckets {
		if rank -= c.late[b]; rank <= 0 {
			return upper(b)
		}
	}
	return 0
}

// upper returns the greatest lateness of a bucket.
func upper(bucket int64) int64 { return bucket + store.LatenessWidth(bucket) - 1 }
