package ui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestHeatMapMarksWhatIsNotCounted checks that an hour which was counted in part or not at all differs
// from one in which nothing is due.
func TestHeatMapMarksWhatIsNotCounted(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	hourly, _ := f.Active(t, "hourly", `{"kind":"cron","specs":["@hourly"]}`)
	often, _ := f.Active(t, "often", `{"kind":"cron","specs":["* * * * * *"]}`)
	p := open(t, f, true)
	const partly, uncounted = `<span class="hidden">, partly counted</span>`,
		`<span class="hidden">not counted</span>`
	body := p.shown("/ui/apps/shop/timers/" + hourly.ID)
	require.NotContains(t, body, "counted")
	require.Contains(t, body, `<span class="badge">not due</span>`)
	body = p.shown("/ui/apps/shop/timers/" + often.ID)
	require.Equal(t, 1, strings.Count(body, partly))
	require.Contains(t, body, " partial\"")
	require.Contains(t, body, `<td class="uncounted later" title="not counted">`)
	require.Greater(t, strings.Count(body, uncounted), 6*24)
	require.Contains(t, body, `<span class="badge uncounted">not counted</span>`)

	// The API counts the latest outcomes only.
	day := time.Now().UTC().Truncate(24 * time.Hour)
	at := day.Add(-24 * time.Hour)
	step := func(hour int) string { return at.Add(time.Duration(hour) * time.Hour).Format(time.RFC3339) }
	p = openOver(t, f, map[string]string{"/apps/shop/stats": fmt.Sprintf(
		`{"truncated":true,"complete_from":%q,"steps":[{"begin":%q,"delivered":7},{"begin":%q,"delivered":8}]}`,
		at.Add(150*time.Minute).Format(time.RFC3339),
		step(2),
		step(3),
	)})
	body = p.shown("/ui/apps/shop/timers/" + hourly.ID)
	require.Equal(t, 6*24+2, strings.Count(body, uncounted), "six days and two hours")
	require.Equal(t, 1, strings.Count(body, partly))
	require.Contains(t, body, "≥7"+partly)
	require.Contains(t, body, `>8</td>`)
}

// TestHeatMapHasTheHoursOfTheZone finishes fires in one hour of UTC that are in two of the zone.
func TestHeatMapHasTheHoursOfTheZone(t *testing.T) {
	t.Parallel()
	for zone, hours := range map[string]map[int]int{ // fires of each, by the clock of the zone
		"UTC":            {4: 4},
		"Asia/Kolkata":   {9: 2, 10: 2}, // +05:30
		"Asia/Kathmandu": {9: 1, 10: 3}, // +05:45
	} {
		f := apitest.Setup(t)
		const session timer.ID = 7
		require.NoError(
			t,
			f.Store.OpenSession(
				t.Context(),
				store.Session{ID: session, Kind: store.ExecutorSession, Name: "test"},
			),
		)
		made, _ := f.Active(
			t, "often", `{"kind":"cron","specs":["* * * * * *"],"time_zone":"`+zone+`"}`)
		fires, err := f.Store.Claim(t.Context(), session, f.Dispatched.All()[:4])
		require.NoError(t, err)
		yesterday := time.Now().UTC().Truncate(24 * time.Hour).Add(-20 * time.Hour) // at 04:00
		var outcomes []timer.Outcome
		for i, fire := range fires {
			outcomes = append(outcomes, timer.Outcome{
				Fire: fire, Kind: timer.Delivered, UntilMS: fire.DueMS, Count: 1, Attempts: 1,
				FinishedMS: yesterday.Add(time.Duration(i) * 15 * time.Minute).UnixMilli(),
			})
		}
		_, _, err = f.Store.Record(t.Context(), session, outcomes, nil)
		require.NoError(t, err)

		body := open(t, f, true).shown("/ui/apps/shop/timers/" + made.ID)
		_, row, found := strings.Cut(
			body, `<th scope="row">`+yesterday.Format(time.DateOnly)+`</th>`)
		require.True(t, found, zone)
		row, _, _ = strings.Cut(row, "</tr>")
		for hour, cell := range strings.Split(row, "</td>") {
			n := 0
			if _, text, _ := strings.Cut(cell, ">"); text != "" {
				n, err = strconv.Atoi(text)
				require.NoError(t, err, "%s", cell)
			}
			require.Equal(t, hours[hour], n, "%s, hour %d", zone, hour)
		}
	}
}

// TestPausedTimerShowsNoInstantsBeforeItsEnd checks what a pause lets come.
func TestPausedTimerShowsNoInstantsBeforeItsEnd(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made, _ := f.Active(t, "hourly", `{"kind":"cron","specs":["@hourly"],"max_fires":50}`)
	path := "/ui/apps/shop/timers/" + made.ID
	until := time.Now().UTC().Truncate(time.Hour).Add(72 * time.Hour)
	w := p.post(path+"/pause", own, url.Values{"until": {until.Format(time.RFC3339)}})
	require.Equal(t, http.StatusSeeOther, w.Code)
	body := p.shown(path)
	require.Contains(t, body, "The timer is paused until <time")
	require.Contains(t, body, "Instants during the pause are skipped")
	_, list, _ := strings.Cut(body, `<ol class="instants">`)
	require.True(
		t,
		strings.HasPrefix(
			list,
			`<li><a href="`+path+`?at=`+until.Format("2006-01-02T15"),
		),
		list[:90],
	)
	ends := until.Format(time.DateOnly)
	_, row, _ := strings.Cut(body, `<th scope="row">`+ends)
	row, _, _ = strings.Cut(row, "</tr>")
	require.Equal(t, 24-until.Hour(), strings.Count(row, `class="coming later"`))

	require.Equal(t, http.StatusSeeOther, p.post(path+"/resume", own, nil).Code)
	require.Equal(t, http.StatusSeeOther, p.post(path+"/pause", own, nil).Code)
	body = p.shown(path)
	require.Contains(t, body, "The timer is paused until it is resumed.")
	require.NotContains(t, body, `class="instants"`)
	require.NotContains(t, body, `class="coming`)

	once, _ := f.Active(t, "once", `{"kind":"at","at":"2030-01-31T09:00:00Z"}`)
	path = "/ui/apps/shop/timers/" + once.ID
	require.Equal(t, http.StatusSeeOther, p.post(path+"/pause", own, nil).Code)
	require.Contains(t, p.shown(path), "its fire waits for the end")
}

// TestExplanationOfGapShowsLocalTime checks that a local time which does not exist is shown as it was
// entered, beside the instant that it is taken for.
func TestExplanationOfGapShowsLocalTime(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	made, _ := f.Active(
		t, "gap", `{"kind":"cron","specs":["30 2 * * *"],"time_zone":"Europe/Paris"}`)
	at := url.Values{"at": {"2035-03-25T02:30:00+01:00"}}
	body := p.shown("/ui/apps/shop/timers/" + made.ID + "?" + at.Encode())
	require.Contains(t, body,
		"<code>clock_change_gap</code> 2035-03-25T02:30:00&#43;01:00 = <time datetime=")
	require.Contains(t, body, ">2035-03-25 03:30")
	at.Set("at", "2035-03-26T02:30:00+02:00")
	require.NotContains(t, p.shown("/ui/apps/shop/timers/"+made.ID+"?"+at.Encode()), " = <time")
}
