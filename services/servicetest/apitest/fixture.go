package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// V1Reply is the body of every v1 answer.
type V1Reply struct {
	Code int
	Msg  string
	ID   timer.ID
	Data map[string]any
}

// V1 calls v1, and checks the status and code.
func (f *Fixture) V1(t *testing.T, status int, method, path, body string) V1Reply {
	t.Helper()
	var r V1Reply
	f.Call(t, method, path, body, nil).Into(t, status, &r)
	if status == http.StatusOK {
		require.Zero(t, r.Code)
		require.Equal(t, "ok", r.Msg)
	} else {
		require.Equal(t, status, r.Code)
		require.NotEmpty(t, r.Msg)
	}
	return r
}

// Stored returns what the store has of a timer, and its decrypted Authorization header.
func (f *Fixture) Stored(
	t *testing.T,
	ring *encryption.Keyring,
	name string,
) (text, authorization string) {
	t.Helper()
	had, err := f.Store.TimerByName(t.Context(), "shop", name)
	require.NoError(t, err)
	b, err := json.Marshal(had.Definition)
	require.NoError(t, err)
	if sealed, ok := had.Definition.Target.SecretHeaders["Authorization"]; ok {
		open, err := ring.Open(sealed, callback.SecretBinding("shop"))
		require.NoError(t, err)
		authorization = open.Reveal()
	}
	return string(b), authorization
}

// V2Calendar is a calendar.
type V2Calendar struct {
	App, Name        string
	TimeZone         string           `json:"time_zone"`
	ExcludedDates    []string         `json:"excluded_dates"`
	IncludedDates    []string         `json:"included_dates"`
	ExcludedWeekdays []string         `json:"excluded_weekdays"`
	AllowedTimes     []map[string]any `json:"allowed_times"`
	Version          int
	UpdatedAt        string `json:"updated_at"`
}

// Calendar calls an operation on calendars.
func (f *Fixture) Calendar(t *testing.T, status int, method, path, body string) V2Calendar {
	t.Helper()
	var c V2Calendar
	f.Call(t, method, "/api/v2/calendars/"+path, body, nil).Into(t, status, &c)
	return c
}

// ListedFire is a fire of a list.
type ListedFire struct {
	ID, Due, Cause, Status string
	WaitsFor               string `json:"waits_for"`
	NextRun                string `json:"next_run"`
}

// Fires reads all pages of a timer's fires. limit is per page.
func (f *Fixture) Fires(t *testing.T, id, states string, limit int) (all []ListedFire) {
	t.Helper()
	path := fmt.Sprintf("%s&limit=%d", TimerPath(id, "/fires"), limit)
	if states != "" {
		path += "&state=" + states
	}
	for cursor := ""; ; {
		var page struct {
			Items []ListedFire
			Next  string `json:"next_cursor"`
		}
		f.Call(t, http.MethodGet, path+"&cursor="+cursor, "", nil).Into(t, 200, &page)
		require.LessOrEqual(t, len(page.Items), limit)
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// Forecast is the answer to a preview.
type Forecast struct {
	Fires    []struct{ Due, Local string }
	Excluded []struct{ Due, Local, Reason string }
}

// Preview previews a schedule.
func (f *Fixture) Preview(t *testing.T, body string) Forecast {
	t.Helper()
	var got Forecast
	f.Call(t, http.MethodPost, "/api/v2/schedules/preview", body, nil).Into(t, 200, &got)
	require.NotNil(t, got.Fires)
	require.NotNil(t, got.Excluded)
	return got
}

// Redriven is the answer to a redrive.
type Redriven struct {
	DryRun bool `json:"dry_run"`
	Series string
	Count  int
	More   bool
	Next   string `json:"next_cursor"`
	Sample []struct {
		ID, Status, Failure string
		RedrivenAs          string `json:"redriven_as"`
	}
}

// Redrive redrives fires.
func (e *Executor) Redrive(t *testing.T, body string) (out Redriven) {
	t.Helper()
	e.Call(t, http.MethodPost, "/api/v2/apps/shop/redrives", body, nil).Into(t, 200, &out)
	return out
}
