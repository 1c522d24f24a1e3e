package importer_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestInputOfEventBridge compares bodies with those that EventBridge makes of Input.
func TestInputOfEventBridge(t *testing.T) {
	t.Parallel()
	const due, id = "<aws.scheduler.scheduled-time>", "<aws.scheduler.execution-id>"
	values := payload.Values{Fire: timer.FireID{Timer: 7, DueMS: 1_900_000_000_000}, Attempt: 2}
	fire := values.Fire.String()
	const arn = "arn:aws:scheduler:eu-west-1:1:schedule/default/a"
	for _, c := range []struct {
		input, arn string
		sent       string
		notes      []string
	}{
		{
			`{"at":"` + due + `","id":"` + id + `"}`, "",
			`{"at":"2030-03-17T17:46:40.000Z","id":"` + fire + `"}`,
			[]string{due + " in Input is {{due.utc}}", id + " in Input is {{fire.id}}: the fire's id"},
		},
		{
			`{"n":<aws.scheduler.attempt-number>,"x":"{{y}}"}`, "", `{"n":2,"x":"{{y}}"}`,
			[]string{"<aws.scheduler.attempt-number> in Input is {{attempt}}"},
		},
		{due + " {{y", "", "2030-03-17T17:46:40.000Z {{y", []string{due + " in Input is {{due.utc}}"}},
		{`{"x":"{{y}}"}`, "", `{"x":"{{y}}"}`, nil},
		{
			`{"a":"<aws.scheduler.schedule-arn>","x":"{{y}}"}`, arn, `{"a":"` + arn + `","x":"{{y}}"}`,
			[]string{"<aws.scheduler.schedule-arn> in Input is written out"},
		},
		{
			`{"a":"<aws.scheduler.schedule-arn>"}`, "", `{"a":"<aws.scheduler.schedule-arn>"}`,
			[]string{"<aws.scheduler.schedule-arn> in Input is sent as it is: correct target.body"},
		},
		{
			`{"a":"<aws.scheduler.other>","at":"` + due + `"}`, "",
			`{"a":"<aws.scheduler.other>","at":"2030-03-17T17:46:40.000Z"}`,
			[]string{"<aws.scheduler.other> in Input is sent as it is", due + " in Input is {{due.utc}}"},
		},
		{
			`{"at":` + due + `}`, "", `{"at":` + due + `}`,
			[]string{"where no variable can stand", due + " in Input is sent as it is"},
		},
	} {
		input, err := json.Marshal(c.input)
		require.NoError(t, err)
		r := read(t, "eventbridge", fmt.Sprintf(
			`{"Name":"a","Arn":%q,"ScheduleExpression":"rate(1 hour)","Target":{"Input":%s}}`,
			c.arn,
			input,
		))
		sent, _ := at(t, r, "target.body").(string)
		if at(t, r, "target.templates") == true {
			sent, err = payload.Expand(sent, payload.PlaceOf("", sent), &values)
			require.NoError(t, err)
		}
		require.Equal(t, c.sent, sent)
		for _, note := range c.notes {
			requireNote(t, r, note)
		}
		require.Len(t, r.Notes, len(c.notes)+1, "%q", r.Notes) // which URL it calls
	}
}

// TestDeadLettersOfEventBridge checks that a queue of dead letters is not left out without a note.
func TestDeadLettersOfEventBridge(t *testing.T) {
	t.Parallel()
	r := read(t, "eventbridge", `{"Name":"a","ScheduleExpression":"rate(1 hour)",
		"Target":{"DeadLetterConfig":{"Arn":"arn:aws:sqs:eu-west-1:1:dead"}}}`)
	requireNote(t, r, "DeadLetterConfig is left out")
}

// TestSummerTimeOfEventBridge imports schedules of local times that do not exist or occur twice.
// EventBridge skips a cron expression that falls on a local time that does not exist, and is due once
// at one that occurs twice.
func TestSummerTimeOfEventBridge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expression, zone, path string
		want                   any
		note                   string
	}{
		{"cron(30 2 * * ? *)", "Europe/Berlin", "schedule.gap", "skip", ""},
		{"cron(30 2 * * ? *)", "Europe/Berlin", "schedule.overlap", nil, ""},
		{"cron(30 2 * * ? *)", "UTC", "schedule.gap", nil, ""},
		{"cron(30 2 * * ? *)", "", "schedule.gap", nil, ""},
		{
			"at(2030-03-31T02:30:00)", "Europe/Berlin", "schedule.at", "2030-03-31T01:00:00Z",
			"2030-03-31T02:30:00 does not exist in Europe/Berlin: schedule.at is 2030-03-31T01:00:00Z",
		},
		{
			"at(2030-10-27T02:30:00)", "Europe/Berlin", "schedule.at", "2030-10-27T00:30:00Z",
			"2030-10-27T02:30:00 occurs twice in Europe/Berlin: schedule.at is the first",
		},
		{"at(2030-03-31T01:59:59)", "Europe/Berlin", "schedule.at", "2030-03-31T00:59:59Z", ""},
		{"at(2030-03-31T03:00:00)", "Europe/Berlin", "schedule.at", "2030-03-31T01:00:00Z", ""},
		{"at(2030-10-27T01:59:59)", "Europe/Berlin", "schedule.at", "2030-10-26T23:59:59Z", ""},
		{"at(2030-10-27T03:00:00)", "Europe/Berlin", "schedule.at", "2030-10-27T02:00:00Z", ""},
	} {
		r := read(t, "eventbridge", fmt.Sprintf(
			`{"Name":"a","ScheduleExpression":%q,"ScheduleExpressionTimezone":%q}`,
			c.expression,
			c.zone,
		))
		require.Equal(t, c.want, at(t, r, c.path), c.expression)
		if c.note != "" {
			requireNote(t, r, c.note)
			continue
		}
		require.Len(t, r.Notes, 1, "%q", r.Notes) // which URL it calls
	}
}
