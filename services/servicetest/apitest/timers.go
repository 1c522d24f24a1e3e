package apitest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TimerWith returns the body of a timer with a schedule, a target and further fields.
func TimerWith(schedule, target, more string) string {
	return `{"app":"shop","name":"bill","schedule":` + schedule + `,"target":` + target + more + `}`
}

// Quick repeats do a few times until it is fast enough. A busy machine is slow only sometimes;
// waiting code is slow each time.
func Quick(t *testing.T, within time.Duration, why string, do func()) {
	t.Helper()
	for range 10 {
		began := time.Now()
		if do(); time.Since(began) < within {
			return
		}
	}
	require.Fail(t, "too slow each time", why)
}

// V1Body creates a timer by v1.
const V1Body = `{"app":"shop","name":"bill","cron":"*/10 * * * * *","notifyHTTPParam":` +
	`{"url":"https://example.com/ring","method":"POST","header":{"X-A":["1","2"]},"body":"{\"a\": 1}"}}`

// Holidays is an iCalendar file.
const Holidays = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//y//EN\r\n" +
	"BEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;VALUE=DATE:20261225\r\nDTEND;VALUE=DATE:20261227\r\nSUMMARY:Christmas\r\nEND:VEVENT\r\n" +
	"END:VCALENDAR\r\n"

// Active creates an active timer.
func (f *Fixture) Active(t *testing.T, name, schedule string) (V2Timer, timer.ID) {
	t.Helper()
	got := f.Create(t, 201, strings.Replace(With(schedule, `"status":"active"`), "bill", name, 1))
	id, err := timer.ParseID(got.ID)
	require.NoError(t, err)
	return got, id
}

// RFC formats an instant as answers do.
func RFC(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// TimerPath returns a path below a timer.
func TimerPath(id, below string) string { return "/api/v2/timers/" + id + below + "?app=shop" }

// Do calls an operation that answers with a timer.
func (f *Fixture) Do(t *testing.T, status int, method, path, body string) V2Timer {
	t.Helper()
	var got V2Timer
	f.Call(t, method, path, body, nil).Into(t, status, &got)
	return got
}

// With returns v2Body with another schedule and further fields.
func With(schedule, more string) string {
	body := strings.Replace(V2Body, `{"kind":"cron","specs":["0 0 9 * * *"]}`, schedule, 1)
	if more != "" {
		body = strings.Replace(body, `{"app"`, `{`+more+`,"app"`, 1)
	}
	return body
}

// WithTarget returns v2Body with another target, and more fields before it.
func WithTarget(target, more string) string {
	before, _, _ := strings.Cut(V2Body, `"target"`)
	return before + more + target + "}"
}

// V2Body creates a timer.
const V2Body = `{"app":"shop","name":"bill","schedule":{"kind":"cron","specs":["0 0 9 * * *"]},` +
	`"target":{"kind":"http","url":"https://example.com/ring","method":"PUT","headers":{"X-A":["1"]},"body":"x"}}`

// V2Timer is a timer.
type V2Timer struct {
	ID, App, Name, Status, Next, Location string
	Version                               int
	Schedule, Target, Retry               map[string]any
	Misfire, Concurrency                  map[string]any
	Paused                                map[string]any
	FiresCreated                          int    `json:"fires_created"`
	NextDue                               string `json:"next_due"`
	CreatedAt                             string `json:"created_at"`
	ActiveSince                           string `json:"active_since"`
}

// V2Problem is a problem.
type V2Problem struct {
	Title, Detail string
	Status        int
	Errors        []struct{ Location, Message string }
}

// Create creates a timer.
func (f *Fixture) Create(t *testing.T, status int, body string) V2Timer {
	t.Helper()
	var got V2Timer
	f.Call(t, http.MethodPost, "/api/v2/timers", body, nil).Into(t, status, &got)
	return got
}

// Problem calls an operation that is refused.
func (f *Fixture) Problem(t *testing.T, status int, method, path, body string) V2Problem {
	t.Helper()
	var p V2Problem
	a := f.Call(t, method, path, body, nil)
	a.Into(t, status, &p)
	require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
	require.Equal(t, status, p.Status)
	require.NotEmpty(t, p.Title)
	return p
}
