package importer_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPassedSchedulesAreInactive imports schedules that are not due again. An active timer of such
// an instant would be called at once.
func TestPassedSchedulesAreInactive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ system, file, status, note string }{
		{
			"eventbridge", `{"Name":"a","State":"ENABLED","ScheduleExpression":"at(2027-08-01T09:00:00)"}`,
			"inactive", "2027-08-01T09:00:00Z has passed: an active timer would be called at once; " +
				"it is inactive: leave it out, or correct schedule.at and set status: active",
		},
		{
			"eventbridge", `{"Name":"a","State":"ENABLED","ScheduleExpression":"at(2028-06-01T01:00:00)",
			"ScheduleExpressionTimezone":"Europe/Berlin"}`, "inactive", "2028-05-31T23:00:00Z has passed",
		},
		{
			"eventbridge", `{"Name":"a","State":"ENABLED","ScheduleExpression":"at(2028-06-01T00:00:00)"}`,
			"active", "",
		},
		{
			"eventbridge", `{"Name":"a","State":"DISABLED","ScheduleExpression":"at(2027-08-01T09:00:00)"}`,
			"inactive", "has passed",
		},
		{
			"eventbridge", `{"Name":"a","ScheduleExpression":"rate(1 hour)","EndDate":"2028-01-01T00:00:00Z"}`,
			"inactive", "the schedule is never due: its end (2028-01-01T00:00:00Z) is past; it is " +
				"inactive: leave it out, or correct schedule.end_at and set status: active",
		},
		{
			"eventbridge", `{"Name":"a","ScheduleExpression":"cron(0 9 * * ? *)","EndDate":1830297600}`,
			"inactive", "its end (2028-01-01T00:00:00Z) is past",
		},
		{
			"eventbridge", `{"Name":"a","ScheduleExpression":"cron(0 9 * * ? *)",
			"EndDate":"2028-06-01T09:00:01Z"}`, "active", "",
		},
		{
			"eventbridge", `{"Name":"a","ScheduleExpression":"cron(0 9 1 1 ? 2028)"}`, "inactive",
			"correct schedule.specs",
		},
		{
			"xxl-job", `{"id":1,"jobDesc":"a","scheduleType":"CRON","scheduleConf":"0 0 9 1 1 ? 2028",
			"triggerStatus":1}`, "inactive", "correct schedule.specs",
		},
		{
			"xtimer", `{"app":"shop","name":"a","status":2,"cron":"0 0 9 1 1 * 2028",
			"notifyHTTPParam":{"url":"https://example.com"}}`, "inactive", "correct schedule.specs",
		},
	} {
		r := read(t, c.system, c.file)
		require.Equal(t, c.status, at(t, r, "status"), c.file)
		if c.note != "" {
			requireNote(t, r, c.note)
			continue
		}
		for _, note := range r.Notes {
			require.NotContains(t, note, "inactive", c.file)
		}
	}
}
