package history

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
)

// overtaking is a store that is so slow that the feed has dropped what a stream needs whenever the
// stream has read what it missed. Of each such time it notes from which instant the stream read.
type overtaking struct {
	Store
	feed  *feed
	times int
	from  []int64
}

func (s *overtaking) Outcomes(
	_ context.Context, q store.OutcomeQuery,
) (page store.OutcomePage, _ error) {
	s.from = append(s.from, q.FromMS)
	if len(s.from) < s.times {
		s.feed.overtake()
	}
	return page, nil
}

// overtake drops all, a minute later.
func (f *feed) overtake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.first += 10
	f.safeMS += time.Minute.Milliseconds()
}

// nothing is a history without outcomes.
type nothing struct{ store.AppHistory }

func (nothing) Outcomes(context.Context, store.OutcomeQuery) (page store.OutcomePage, _ error) {
	return page, nil
}

// TestOvertakenStreamsGoOn checks that a stream which is overtaken again and again reads what it
// missed since the last time, and not all of it anew.
func TestOvertakenStreamsGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFeed("shop", Options{Store: &overtaking{}, Now: time.Now})
		f.store = nothing{}
		st := &overtaking{feed: f, times: 5}
		w := httptest.NewRecorder()
		s := &stream{
			resource: &Resource{Options: Options{Store: st, Logger: zerolog.Nop()}},
			app:      "shop", follow: true, filter: &filter{}, labels: newLabelMatcher(nil, nil),
			feed: f, w: w, control: http.NewResponseController(w),
		}
		require.NoError(t, f.start(t.Context()))
		s.next, s.safeMS = f.end()
		f.overtake()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, s.run(ctx, 0), context.DeadlineExceeded)
		require.Len(t, st.from, st.times)
		for i := 1; i < len(st.from); i++ {
			require.Equal(t, time.Minute.Milliseconds(), st.from[i]-st.from[i-1], i)
		}
	})
}
