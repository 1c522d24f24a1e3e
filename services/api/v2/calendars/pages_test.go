package calendars_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestPagesOfLargeCalendars checks that a page of calendars with thousands of dates ends before its
// limit, and that the pages together have all of them once.
func TestPagesOfLargeCalendars(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	dates := make([]string, timer.MaxCalendarDates)
	for i := range dates {
		dates[i] = `"` + time.Date(2000, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) + `"`
	}
	body := `{"excluded_dates":[` + strings.Join(dates, ",") + `]}`
	const n = 65
	for i := range n {
		a := f.Call(
			t, http.MethodPut, fmt.Sprintf("/api/v2/calendars/c%02d?app=shop", i), body, nil,
		)
		require.Equal(t, http.StatusOK, a.Status, a.Body)
	}
	var names []string
	pages := 0
	for cursor := ""; ; pages++ {
		a := f.Call(t, http.MethodGet, "/api/v2/calendars?app=shop&limit=1000"+cursor, "", nil)
		require.Equal(t, http.StatusOK, a.Status, a.Body)
		require.Less(t, len(a.Body), 6<<20)
		var page struct {
			Items []struct{ Name string }
			Next  string `json:"next_cursor"`
		}
		require.NoError(t, json.Unmarshal([]byte(a.Body), &page))
		for _, c := range page.Items {
			names = append(names, c.Name)
		}
		if page.Next == "" {
			break
		}
		cursor = "&cursor=" + page.Next
	}
	require.Equal(t, 1, pages)
	require.Len(t, names, n)
	for i, name := range names {
		require.Equal(t, fmt.Sprintf("c%02d", i), name)
	}
}
