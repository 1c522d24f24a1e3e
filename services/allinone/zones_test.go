package allinone_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/zone"
	"github.com/carillon-timer/carillon/libs/zone/zonetest"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestNewTimeZones restarts a deployment with other time zones. By the old zones, which use
// Adelaide's rules for Sydney, a timer is due in half an hour, and its fires exist already. By the
// new zones it is due now.
func TestNewTimeZones(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	receiver := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }),
	)
	defer receiver.Close()
	sydney, err := zone.Embedded().Load("Australia/Sydney")
	require.NoError(t, err)
	var specs []string
	for at, n := time.Now().In(sydney.Location()), 0; n < 15; n++ {
		specs = append(specs, fmt.Sprintf(`"* %d %d * * *"`, at.Minute(), at.Hour()))
		at = at.Add(time.Minute)
	}
	dir := t.TempDir()
	was := zonetest.File(t, "2031a", map[string]string{"Australia/Sydney": "Australia/Adelaide"})
	d := devtest.Start(t, dir, "CARILLON_TZDATA", was)
	code, body := d.Do(
		t,
		http.MethodPost,
		"/api/v2/timers",
		"",
		`{"app":"a","name":"b","status":"active","schedule":{"kind":"cron","time_zone":"Australia/Sydney","specs":[`+
			strings.Join(
				specs,
				",",
			)+`]},"target":{"url":"`+receiver.URL+`"}}`,
	)
	require.Equal(t, http.StatusCreated, code, body)
	created := time.Now().UTC().Truncate(time.Second)
	var made struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	code, body = d.Do(
		t,
		http.MethodPost,
		"/api/v2/timers",
		"",
		`{"app":"a","name":"c","schedule":{"kind":"cron","time_zone":"right/Europe/Berlin","specs":["* * * * *"]},"target":{"url":"`+
			receiver.URL+`"}}`,
	)
	require.Equal(t, http.StatusUnprocessableEntity, code)
	require.Contains(t, body, `use \"Europe/Berlin\"`)
	require.Contains(t, body, "schedule.time_zone")
	require.Eventually(
		t,
		func() bool { return time.Since(created) > 2*time.Second },
		10*time.Second,
		20*time.Millisecond,
	)
	d.Stop(t)
	require.Zero(t, calls.Load())

	d = devtest.Start(t, dir)
	defer d.Stop(t)
	require.Eventually(
		t,
		func() bool { return calls.Load() > 1 },
		30*time.Second,
		20*time.Millisecond,
	)
	_, body = d.Do(t, http.MethodGet, "/api/v2/timers/"+made.ID+"?app=a", "", "")
	require.Contains(t, body, `"version":2`)
	at := created.Add(time.Second).Format(time.RFC3339)
	_, body = d.Do(t, http.MethodGet, "/api/v2/timers/"+made.ID+"/explain?app=a&at="+at, "", "")
	require.Contains(
		t,
		body,
		`"code":"zone_changed"`,
		"due by the new rules, and not called by the old",
	)
	_, body = devtest.Get(t, d.Admin+"/readyz")
	require.Contains(t, body, `"version":"`+zone.Embedded().Version()+`","source":"embedded"`)
}
