package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// split runs a command and returns its two streams.
func (u *user) split(args ...string) (stdout, stderr string, err error) {
	u.t.Helper()
	var out, errOut bytes.Buffer
	env := func(name string) (string, bool) { v, ok := u.env[name]; return v, ok }
	root := cli.Root(env, strings.NewReader(u.in), &out, &errOut)
	root.SetArgs(args)
	err = root.ExecuteContext(u.t.Context())
	return out.String(), errOut.String(), err
}

const someCrontab = `# jobs of the shop
MAILTO=ops@example.com
CRON_TZ=Europe/Berlin
0 9 * * MON-FRI curl -X PUT -d '{"a":1}' https://example.com/bill
@daily /usr/bin/cleanup --all
@reboot /usr/bin/start
61 * * * * curl https://example.com/never
*/5 * * * * wget -q https://example.com/ping
`

const someCronJobs = `apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: CronJob
  metadata: {name: nightly, labels: {team: pay}}
  spec:
    schedule: "30 2 * * *"
    timeZone: Europe/Berlin
    concurrencyPolicy: Forbid
    startingDeadlineSeconds: 600
    suspend: true
    jobTemplate: {spec: {backoffLimit: 2}}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: once}
`

const someXXLJobs = `{"recordsTotal":3,"data":[
{"id":1,"jobDesc":"report","scheduleType":"CRON","scheduleConf":"0 0 9 ? * 2-6","misfireStrategy":"DO_NOTHING",
 "executorHandler":"reportHandler","executorParam":"x=1","executorBlockStrategy":"DISCARD_LATER","executorTimeout":7,
 "executorFailRetryCount":2,"childJobId":"2","triggerStatus":1},
{"id":2,"jobDesc":"sweep","scheduleType":"FIX_RATE","scheduleConf":"30","executorHandler":"sweep","triggerStatus":0},
{"id":3,"jobDesc":"manual","scheduleType":"NONE","scheduleConf":"","executorHandler":"h"}]}`

const someSchedules = `{"Name":"report","ScheduleExpression":"cron(0 9 ? * 2#1 *)","ScheduleExpressionTimezone":"Europe/Paris",
 "State":"ENABLED","FlexibleTimeWindow":{"Mode":"FLEXIBLE","MaximumWindowInMinutes":5},
 "Target":{"Arn":"arn:aws:lambda:eu-west-1:1:function:report","Input":"{}","RetryPolicy":{"MaximumRetryAttempts":3}}}
{"Name":"tick","ScheduleExpression":"rate(2 days)","State":"DISABLED","FlexibleTimeWindow":{"Mode":"OFF"}}
{"Name":"once","ScheduleExpression":"at(2040-01-31T09:00:00)","ScheduleExpressionTimezone":"Europe/Paris","State":"ENABLED"}
{"Name":"bad","ScheduleExpression":"sometimes"}
{"ScheduleExpression":"rate(1 day)"}`

const someTimers = `[{"app":"mail","name":"digest","status":2,"cron":"0 0 9 * * *",
 "notifyHTTPParam":{"url":"https://example.com/digest","method":"post","header":{"X-A":["1"]},"body":"hi"}},
{"app":"mail","name":"digest","status":1,"cron":"*/5 * * * *","notify_http_param":"{\"url\":\"https://example.com/ping\",\"method\":\"GET\"}"},
{"app":"mail","name":"none","status":1,"cron":"*/5 * * * *"}]`

// TestImport imports a file of each system into a process, and checks what it does not carry over.
//
//nolint:tparallel // the subtests share a process
func TestImport(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	for _, c := range []struct {
		system, text string
		url          string
		timers       map[string][]string // by name, texts of the definition
		said         []string
	}{
		{
			"crontab", someCrontab, "",
			map[string][]string{
				"example.com-bill": {"method: PUT", `body: '{"a":1}'`, "0 9 * * MON-FRI", "time_zone: Europe/Berlin", "status: active"},
				"example.com-ping": {"method: GET", "*/5 * * * *"},
			},
			[]string{
				"line 2: note: MAILTO is left out", "line 5: note: it runs a program", "line 5: left out: it calls no URL",
				"line 6: left out: @reboot", "line 7: left out: the schedule cannot be carried over",
			},
		},
		{
			"kubernetes", someCronJobs, "https://example.com/run/{name}",
			map[string][]string{
				"nightly": {
					"url: https://example.com/run/nightly", "policy: skip", "catch_up_window: 10m0s", "attempts: 3",
					"status: inactive", "team: pay",
				},
			},
			[]string{"nightly: note: its containers are not run", "once: left out: a Job is no CronJob"},
		},
		{
			"xxl-job", someXXLJobs, "https://example.com/{name}",
			map[string][]string{
				"report": {"0 0 9 ? * MON-FRI", "policy: skip", "timeout: 7s", "attempts: 3", "body: x=1", "handler: reportHandler"},
				"sweep":  {"every: 30s", "status: inactive"},
			},
			[]string{"job 1: note: childJobId 2 is left out", "job 3: left out: scheduleType NONE"},
		},
		{
			"eventbridge", someSchedules, "https://example.com/{name}",
			map[string][]string{
				"report": {"0 0 9 ? * MON#1 *", "jitter: 5m0s", "attempts: 4", "time_zone: Europe/Paris"},
				"tick":   {"every: 48h0m0s", "status: inactive"},
				"once":   {"at: \"2040-01-31T08:00:00Z\""},
			},
			[]string{"report: note: its target arn:aws:lambda", "bad: left out: expected cron(…), rate(…) or at(…)", "entry 5: left out: no name"},
		},
		{
			"xtimer", someTimers, "",
			map[string][]string{
				"digest":   {"method: POST", "X-A:", "body: hi", "0 0 9 * * *"},
				"digest-2": {"method: GET", "status: inactive"},
			},
			[]string{"entry 2, digest: note: another entry has the same name", "entry 3, none: left out: it calls no URL"},
		},
	} {
		t.Run(c.system, func(t *testing.T) {
			u := newUser(t, d.Api)
			u.env["CARILLON_APP"] = c.system
			file := u.file("in", c.text)
			args := []string{"import", "--from", c.system, file}
			if c.url != "" {
				args = append(args, "--url", c.url)
			}
			files, said, err := u.split(args...)
			require.ErrorContains(t, err, "could not be carried over")
			require.NotContains(t, err.Error(), "1 entries")
			for _, text := range c.said {
				require.Contains(t, said, text)
			}
			if c.system == "xtimer" {
				u.env["CARILLON_APP"] = "mail"
			}
			_, _, err = u.split(append(args, "--apply")...)
			require.ErrorContains(t, err, "could not be carried over", "nothing else is left out")
			for name, texts := range c.timers {
				shown := u.do("timer", "get", name)
				for _, text := range texts {
					require.Contains(t, shown, text)
				}
			}
			require.Len(t, strings.Fields(u.do("timer", "list", "-o", "name")), len(c.timers))
			again := u.do("apply", "-f", u.file("out.yaml", files))
			require.Equal(
				t,
				len(c.timers),
				strings.Count(again, "unchanged"),
				"what it prints is what it applies: %s",
				again,
			)
		})
	}
	u := newUser(t, d.Api)
	require.Contains(t, u.refused("import", "--from", "at", "-"), "expected cron.d, crontab")
	require.Contains(
		t,
		u.refused("import", "--from", "xtimer", u.file("bad", "{")),
		"expected JSON",
	)
}

// corpus has entries of each system at and beyond the limits of the API.
var corpus = map[string]string{
	"crontab": `
* * * * * curl https://example.com/a
@daily curl -m 9999 --retry 99 -k -L --max-redirs 99 -u me:pw -d a=1 -d b=2 https://example.com/b
@daily curl -G -d 'a=1&b=2' -H 'X-A: 1' -H 'Content-Length: 3' --http1.1 "http://example.com/c?d"
@daily curl --json '{"a":   "\%"}' https://me:pw@example.com/` + "\t" + `
@daily wget -q --tries=0 -T 0.001 --post-data=x https://example.com/e
@daily curl -I 'example.com/f g'
@daily curl -X FETCH https://example.com/g
0 0 */2 * 5 curl -d @file $(date) https://example.com/h
61 * * * * curl https://example.com/never
@daily /usr/bin/` + strings.Repeat("long", 100) + `
`,
	"kubernetes": `{"kind":"List","items":[
{"kind":"CronJob","metadata":{"name":"` + strings.Repeat("long", 60) + `","labels":{"a":"","b":"` + strings.Repeat("long", 70) + `"}},
 "spec":{"schedule":"0 9 * * *","startingDeadlineSeconds":0,"jobTemplate":{"spec":{"backoffLimit":99}}}},
{"kind":"CronJob","metadata":{"name":"b"},"spec":{"schedule":"*/90 * * * *"}},
{"kind":"CronJob","metadata":{"name":"c"},"spec":{"schedule":"@every 1s","startingDeadlineSeconds":99999999999}}]}`,
	"xxl-job": `[
{"id":1,"jobDesc":" a\t\u0000b ","scheduleType":"CRON","scheduleConf":"0/75 * * * * ?","executorTimeout":-1},
{"id":2,"jobDesc":" a\tb ","scheduleType":"CRON","scheduleConf":"0 0 0 L * ?","executorTimeout":9999,"executorFailRetryCount":99},
{"id":3,"jobDesc":"` + strings.Repeat("报", 99) + `","scheduleType":"FIX_RATE","scheduleConf":"99999999999"},
{"id":4,"jobDesc":"` + strings.Repeat("报", 99) + `","scheduleType":"FIX_DELAY","scheduleConf":"0.5"},
{"id":5,"jobDesc":"` + strings.Repeat("报", 99) + `","scheduleType":"FIX_DELAY","scheduleConf":"5"},
{"id":6,"jobDesc":"` + strings.Repeat("报", 99) + `","scheduleType":"FIX_DELAY","scheduleConf":"5","executorHandler":"{{x}}"}]`,
	"eventbridge": `
{"Name":"a","ScheduleExpression":"rate(0 minutes)"}
{"Name":"b","ScheduleExpression":"rate(5 minutes)","StartDate":"2030-01-01T00:00:00Z","EndDate":1893456001,
 "Target":{"Input":"{}","RetryPolicy":{"MaximumRetryAttempts":185,"MaximumEventAgeInSeconds":86400}}}
{"Name":"c","ScheduleExpression":"at(2040-01-31T09:00:00)","StartDate":"2030-01-01T00:00:00Z"}
{"Name":"d","ScheduleExpression":"cron(0 9 ? * 7#5 2300)"}
{"Name":"e","ScheduleExpression":"rate(1 day)","EndDate":"soon","FlexibleTimeWindow":{"Mode":"FLEXIBLE","MaximumWindowInMinutes":99999}}
{"Name":"f","ScheduleExpression":"rate(1 day)","FlexibleTimeWindow":{"Mode":"FLEXIBLE","MaximumWindowInMinutes":1440}}`,
	"xtimer": `[
{"app":"mail","name":"a","cron":"0 9 * * *","notifyHTTPParam":{"url":"https://example.com","method":"fetch"}},
{"app":"mail","name":"b","cron":"0 9 * * *","notifyHTTPParam":{"url":"https://example.com","header":{"Connection":["close"]}}},
{"app":"mail","name":"c","cron":"0 9 * * *","notifyHTTPParam":{"url":"https://example.com","header":{"X-A":["1"]}}},
{"app":"mail","name":"d","cron":"0 9 * * *","notifyHTTPParam":{"url":"ftp://example.com"}},
{"app":"mail","name":"e","cron":"0 9 * * *","notifyHTTPParam":{"url":"https://me:pw@example.com/%zz"}},
{"app":"carillon","name":"f","cron":"0 9 * * *","notifyHTTPParam":{"url":"https://example.com"}},
{"app":"mail","name":" g ","cron":"0 9 * * *","notifyHTTPParam":{"url":"https://example.com"}}]`,
}

// TestImportOfNothing checks that an empty file does not look like one that was imported.
func TestImportOfNothing(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:1") // it is not called
	for system, text := range map[string]string{
		"crontab": "# none\n\n", "xtimer": "[]", "xxl-job": `{"content":[]}`, "eventbridge": "",
		"kubernetes": "---\n",
	} {
		file := u.file("in", text)
		for _, apply := range []string{"--apply=false", "--apply"} {
			out, errOut, err := u.split("import", "--from", system, file, apply)
			require.NoError(t, err, system)
			require.Empty(t, out, system)
			require.Equal(t, "nothing to import: there is no entry in "+file+"\n", errOut, system)
		}
	}
}

// TestImportedDefinitionsAreAccepted applies what the importer makes of the corpus. What the API
// would refuse must be left out by the importer, or be within its limits.
func TestImportedDefinitionsAreAccepted(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	for system, text := range corpus {
		u := newUser(t, d.Api)
		u.env["CARILLON_APP"] = "corpus-" + system
		file := u.file("in", text)
		args := []string{"import", "--from", system, file, "--url", "https://example.com/{name}"}
		files, _, err := u.split(args...)
		require.ErrorContains(t, err, "could not be carried over", system)
		u.do("apply", "-f", u.file("out.yaml", files))
		_, _, applied := u.split(append(args, "--apply")...)
		require.Equal(t, err, applied, "%s: the API refuses no more", system)
	}
}
