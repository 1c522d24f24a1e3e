package importer_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/importer"
)

var someOptions = importer.Options{
	App: "shop", URL: "https://example.com/{name}", Zone: "UTC",
	Now: time.Date(2028, time.June, 1, 0, 0, 0, 0, time.UTC),
}

// read imports a file that has one entry.
func read(t *testing.T, system, file string) importer.Result {
	t.Helper()
	all, err := importer.Read(system, []byte(file), someOptions)
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// at returns a value within a definition, such as "retry.attempts".
func at(t *testing.T, r importer.Result, path string) any {
	t.Helper()
	require.NotNil(t, r.Manifest, "%v", r.Refused)
	data, err := json.Marshal(r.Manifest.Body)
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(data, &v))
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// requireNote checks that a note, or a reason why there is no manifest, has a text. An empty text
// stands for neither.
func requireNote(t *testing.T, r importer.Result, text string) {
	t.Helper()
	require.Equal(t, r.Manifest == nil, len(r.Refused) > 0)
	said := slices.Concat(r.Notes, r.Refused)
	if text == "" {
		require.Empty(t, said)
		return
	}
	require.True(t, slices.ContainsFunc(said, func(note string) bool {
		return strings.Contains(note, text)
	}), "expected %q, found %q", text, said)
}

// TestValuesBeyondTheAPI imports values that the API does not take. Each comes within its limits,
// or the entry is left out, and a note says so.
func TestValuesBeyondTheAPI(t *testing.T) {
	t.Parallel()
	schedule := func(more string) string {
		return `{"Name":"a","ScheduleExpression":"rate(1 hour)"` + more + `}`
	}
	policy := func(more string) string {
		return schedule(`,"Target":{"RetryPolicy":{` + more + `}}`)
	}
	job := func(more string) string {
		return `{"id":1,"jobDesc":"a","scheduleType":"FIX_RATE","scheduleConf":"60"` + more + `}`
	}
	cronJob := func(metadata, spec string) string {
		return `{"kind":"CronJob","metadata":{"name":"a"` + metadata +
			`},"spec":{"schedule":"0 9 * * *"` + spec + `}}`
	}
	call := func(more string) string {
		return `{"app":"shop","name":"a","status":2,"cron":"0 9 * * *",
			"notifyHTTPParam":{"url":"https://example.com"` + more + `}}`
	}
	const leftOut = ""
	for _, c := range []struct {
		what, system, file string
		path               string // leftOut: there is no definition
		want               any
		note               string
	}{
		{"most attempts", "eventbridge", policy(`"MaximumRetryAttempts":19`), "retry.attempts", 20.0, ""},
		{
			"more attempts", "eventbridge", policy(`"MaximumRetryAttempts":185`), "retry.attempts", 20.0,
			"MaximumRetryAttempts asks for 186 attempts: retry.attempts is 20",
		},
		{"no retry", "eventbridge", policy(`"MaximumRetryAttempts":0`), "retry.attempts", 1.0, ""},
		{
			"age", "eventbridge", policy(`"MaximumEventAgeInSeconds":3600`),
			"retry.give_up_after", "1h0m0s", "",
		},
		{
			"no rate", "eventbridge", `{"Name":"a","ScheduleExpression":"rate(0 minutes)"}`, leftOut, nil,
			"expected a rate of 1 or more, found rate(0 minutes)",
		},
		{
			"long rate", "eventbridge", `{"Name":"a","ScheduleExpression":"rate(99999 days)"}`, leftOut, nil,
			"the schedule cannot be carried over: schedule.every: expected a duration from 1s",
		},
		{
			"impossible rate", "eventbridge",
			`{"Name":"a","ScheduleExpression":"rate(99999999999999999999 days)"}`, leftOut, nil,
			"the schedule cannot be carried over: schedule.every: expected a duration",
		},
		{
			"no zone", "eventbridge", `{"Name":"a","ScheduleExpression":"cron(0 9 * * ? *)"}`,
			"schedule.time_zone", "UTC", "",
		},
		{
			"start of a rate", "eventbridge", schedule(`,"StartDate":"2030-01-01T09:00:00+01:00"`),
			"schedule.anchor", "2030-01-01T09:00:00+01:00", "",
		},
		{
			"start as a number", "eventbridge", schedule(`,"StartDate":1893456000.0`),
			"schedule.start_at", "2030-01-01T00:00:00Z", "",
		},
		{
			"start of at", "eventbridge",
			`{"Name":"a","ScheduleExpression":"at(2040-01-31T09:00:00)","StartDate":"2030-01-01T00:00:00Z"}`,
			"schedule.start_at", nil, "StartDate and EndDate are left out",
		},
		{
			"end before the start", "eventbridge",
			schedule(`,"StartDate":"2030-01-01T00:00:00Z","EndDate":"2029-01-01T00:00:00Z"`), leftOut, nil,
			"schedule.end_at: expected an instant later than start_at",
		},
		{
			"long window", "eventbridge",
			schedule(`,"FlexibleTimeWindow":{"Mode":"FLEXIBLE","MaximumWindowInMinutes":1441}`), leftOut, nil,
			"schedule.jitter: expected a duration from 0s to 24h",
		},
		{
			"deletion", "eventbridge", schedule(`,"ActionAfterCompletion":"DELETE"`), "name", "a",
			"ActionAfterCompletion DELETE is left out",
		},
		{"group", "eventbridge", schedule(`,"GroupName":"pay"`), "labels.group", "pay", ""},
		{
			"timeout", "xxl-job", job(`,"executorTimeout":301`), "retry.timeout", "5m0s",
			"executorTimeout asks for a timeout of 5m1s: retry.timeout is 5m0s",
		},
		{
			"endless timeout", "xxl-job", job(`,"executorTimeout":9223372036854775807`), "retry.timeout", "5m0s",
			"executorTimeout asks for a timeout of",
		},
		{
			"retries", "xxl-job", job(`,"executorFailRetryCount":20`), "retry.attempts", 20.0,
			"executorFailRetryCount asks for 21 attempts",
		},
		{"no retries", "xxl-job", job(`,"executorFailRetryCount":-1`), "retry.attempts", 1.0, ""},
		{
			"rate", "xxl-job", `{"id":1,"jobDesc":"a","scheduleType":"FIX_RATE","scheduleConf":"0"}`,
			leftOut, nil, "schedule.every: expected a duration",
		},
		{
			"delay", "xxl-job", `{"id":1,"jobDesc":"a","scheduleType":"FIX_DELAY","scheduleConf":"soon"}`,
			leftOut, nil, "schedule.every: expected a duration",
		},
		{
			"long body", "xxl-job", job(`,"executorParam":"` + strings.Repeat("x", 256<<10+1) + `"`),
			leftOut, nil, "target.body: expected at most 262144 bytes",
		},
		{
			"script", "xxl-job", job(`,"glueType":"GLUE_SHELL"`), "name", "a",
			"its script (GLUE_SHELL) is not run",
		},
		{
			"name of blanks", "xxl-job",
			`{"id":1,"jobDesc":" daily\treport ","scheduleType":"FIX_RATE","scheduleConf":"60"}`,
			"target.url", "https://example.com/daily-report", "is no name of a timer: it is daily-report",
		},
		{
			"name with a space", "xxl-job",
			`{"id":1,"jobDesc":"a & b","scheduleType":"FIX_RATE","scheduleConf":"60"}`,
			"target.url", "https://example.com/a%20%26%20b", "it calls https://example.com/a%20%26%20b",
		},
		{
			"long name", "xxl-job",
			`{"id":1,"jobDesc":"` + strings.Repeat("é", 65) + `","scheduleType":"FIX_RATE","scheduleConf":"60"}`,
			"name", strings.Repeat("é", 64), "is no name of a timer: it is é",
		},
		{
			"backoff", "kubernetes", cronJob("", `,"jobTemplate":{"spec":{"backoffLimit":20}}`),
			"retry.attempts", 20.0, "backoffLimit asks for 21 attempts",
		},
		{
			"no deadline", "kubernetes", cronJob("", `,"startingDeadlineSeconds":0`),
			"misfire.catch_up_window", "1s", "misfire.catch_up_window is 1s",
		},
		{
			"long deadline", "kubernetes", cronJob("", `,"startingDeadlineSeconds":9223372036854775807`),
			"misfire.catch_up_window", "87600h0m0s", "misfire.catch_up_window is 87600h0m0s",
		},
		{
			"deadline of a job", "kubernetes",
			cronJob("", `,"jobTemplate":{"spec":{"activeDeadlineSeconds":60}}`), "name", "a",
			"activeDeadlineSeconds is left out",
		},
		{
			"parallel job", "kubernetes",
			cronJob("", `,"jobTemplate":{"spec":{"parallelism":3}}`), "name", "a",
			"parallelism 3 is left out",
		},
		{
			"job of several", "kubernetes",
			cronJob("", `,"jobTemplate":{"spec":{"completions":5,"completionMode":"Indexed"}}`), "name", "a",
			"completions 5 is left out",
		},
		{
			"indexed job", "kubernetes",
			cronJob("", `,"jobTemplate":{"spec":{"completions":5,"completionMode":"Indexed"}}`), "name", "a",
			"completionMode Indexed is left out",
		},
		{
			"job with a policy of pods", "kubernetes",
			cronJob("", `,"jobTemplate":{"spec":{"podFailurePolicy":{"rules":[]}}}`), "name", "a",
			"podFailurePolicy is left out",
		},
		{
			"suspended jobs", "kubernetes",
			cronJob("", `,"jobTemplate":{"spec":{"suspend":true}}`), "status", "inactive",
			"its jobs never ran",
		},
		{
			"long label", "kubernetes",
			cronJob(`,"labels":{"a":"b","`+strings.Repeat("x", 257)+`":"c"}`, ""), "labels.a", "b",
			"is left out: expected at most 256 bytes",
		},
		{
			"zone in the schedule", "kubernetes",
			`{"kind":"CronJob","metadata":{"name":"a"},"spec":{"schedule":"TZ=UTC 0 9 * * *",
				"timeZone":"UTC"}}`, leftOut, nil,
			"a cron expression without a time zone",
		},
		{
			"zone", "kubernetes", cronJob("", `,"timeZone":"Europe/Atlantis"`), leftOut, nil,
			"schedule.time_zone",
		},
		{"method", "xtimer", call(`,"method":"fetch"`), leftOut, nil, "target.method: expected GET"},
		{
			"header", "xtimer", call(`,"header":{"Content-Length":["2"]}`), leftOut, nil,
			"target.headers.Content-Length: expected a header of the request",
		},
		{
			"app", "xtimer", `{"app":"carillon","name":"a","cron":"0 9 * * *"}`, leftOut, nil,
			"app: ",
		},
		{
			"address", "xtimer",
			`{"app":"shop","name":"a","cron":"0 9 * * *","notifyHTTPParam":{"url":"ftp://example.com"}}`,
			leftOut, nil, "target.url: expected an absolute http or https URL",
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			r := read(t, c.system, c.file)
			if c.note != "" {
				requireNote(t, r, c.note)
			}
			if c.path == leftOut {
				require.Nil(t, r.Manifest)
				return
			}
			require.Equal(t, c.want, at(t, r, c.path))
		})
	}
}

// TestManyLabels keeps as many labels as a timer can have.
func TestManyLabels(t *testing.T) {
	t.Parallel()
	labels := make(map[string]string)
	for i := range 40 {
		labels[fmt.Sprintf("label%02d", i)] = "x"
	}
	text, err := json.Marshal(labels)
	require.NoError(t, err)
	r := read(t, "kubernetes", `{"kind":"CronJob","metadata":{"name":"a","labels":`+string(text)+
		`},"spec":{"schedule":"0 9 * * *"}}`)
	kept, _ := at(t, r, "labels").(map[string]any)
	require.Equal(t, slices.Sorted(maps.Keys(labels))[:32], slices.Sorted(maps.Keys(kept)))
	requireNote(t, r, "the label label39 is left out: there can be at most 32")
}

// TestLimitsAreThoseOfTheAPI checks that a value is only changed where the API refuses it: a value
// at the limit has no note. What no conversion brings within its limits is refused.
func TestLimitsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	for more, within := range map[string]bool{
		`,"executorTimeout":300`:       true,
		`,"executorTimeout":301`:       false,
		`,"executorFailRetryCount":19`: true,
		`,"executorFailRetryCount":20`: false,
	} {
		r := read(t, "xxl-job",
			`{"id":1,"jobDesc":"a","scheduleType":"FIX_RATE","scheduleConf":"60"`+more+`}`)
		require.NotNil(t, r.Manifest, "%s: %v", more, r.Refused)
		const always = 1 // which URL it calls
		require.Equal(t, within, len(r.Notes) == always, "%s: %v", more, r.Notes)
	}
	bad, err := importer.Read("eventbridge", []byte(
		`{"Name":"a","ScheduleExpression":"rate(1 hour)",
		  "Target":{"RetryPolicy":{"MaximumEventAgeInSeconds":2592001}}}`,
	), someOptions)
	require.NoError(t, err)
	requireNote(
		t,
		bad[0],
		fmt.Sprintf("retry.give_up_after: expected a duration from 0s to %s", 720*time.Hour),
	)
}

// TestEqualNames checks that no two timers have one name, and that each calls the URL of its own.
func TestEqualNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128)
	var rows []string
	for _, name := range []string{"a", "a", "a-2", "a", long, long} {
		rows = append(rows, `{"Name":"`+name+`","ScheduleExpression":"rate(1 hour)"}`)
	}
	all, err := importer.Read("eventbridge", []byte(strings.Join(rows, "\n")), someOptions)
	require.NoError(t, err)
	var names, urls []string
	for _, r := range all {
		require.NotNil(t, r.Manifest, "%v", r.Notes)
		require.Equal(t, r.Manifest.Name, at(t, r, "name"))
		names = append(names, r.Manifest.Name)
		urls = append(urls, fmt.Sprint(at(t, r, "target.url")))
	}
	short := strings.Repeat("x", 126) + "-2"
	require.Equal(t, []string{"a", "a-3", "a-2", "a-4", long, short}, names)
	for i, name := range names {
		require.Equal(t, "https://example.com/"+name, urls[i])
	}
	requireNote(t, all[1], "another entry has the same name: it is a-3")
	requireNote(t, all[1], "it calls https://example.com/a-3")
}

// TestNamesOfCronJobs checks that the name of a timer depends on its job alone, and not on the order
// of the input or on what else is in it.
func TestNamesOfCronJobs(t *testing.T) {
	t.Parallel()
	job := func(namespace, name, minute string) string {
		if namespace != "" {
			namespace = `,"namespace":"` + namespace + `"`
		}
		return `{"kind":"CronJob","metadata":{"name":"` + name + `"` + namespace + `},
			"spec":{"schedule":"` + minute + ` 9 * * *"}}`
	}
	pay, ops := job("pay", "report", "1"), job("ops", "report", "2")
	alone := job("", "report", "3")
	for _, items := range [][]string{{pay}, {pay, ops}, {ops, pay}, {alone, ops, pay}} {
		all, err := importer.Read(
			"kubernetes",
			[]byte(`{"kind":"List","items":[`+strings.Join(items, ",")+`]}`),
			someOptions,
		)
		require.NoError(t, err)
		for i, r := range all {
			want := map[string]string{pay: "pay.report", ops: "ops.report", alone: "report"}[items[i]]
			require.Equal(t, want, at(t, r, "name"))
			require.Equal(t, "https://example.com/"+want, at(t, r, "target.url"))
		}
	}
	all, err := importer.Read(
		"kubernetes", []byte(alone+"\n---\n"+pay+"\n---\n"+job("", "report", "4")), someOptions,
	)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.NotNil(t, all[1].Manifest)
	for _, r := range []importer.Result{all[0], all[2]} {
		require.Nil(t, r.Manifest)
		requireNote(t, r, "2 entries have the name report: set metadata.namespace of each")
	}
}

// TestNoCronJobIsLeftOut imports CronJobs that a reader of YAML would not separate.
func TestNoCronJobIsLeftOut(t *testing.T) {
	t.Parallel()
	const job = `{"kind":"CronJob","metadata":{"name":"a"},"spec":{"schedule":"0 9 * * *"}}`
	all, err := importer.Read("kubernetes", []byte(job+"\r\n---\r\n"+job), someOptions)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, between := range []string{"\n...\n", "\n--- "} {
		_, err := importer.Read("kubernetes", []byte("# jobs\n"+job+between+job), someOptions)
		require.ErrorContains(t, err, "document 1: yaml: expected one document", "%q", between)
	}
}
