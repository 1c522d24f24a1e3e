package importer_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/importer"
)

// program is the URL of entries that the timer cannot call itself.
const program = "https://example.com/run"

// command imports a crontab with one entry that runs a command every day.
func command(t *testing.T, lines string) importer.Result {
	t.Helper()
	all, err := importer.Read("crontab", []byte(lines), importer.Options{
		App: "shop", URL: program, Zone: "UTC",
	})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

// form are the headers of a body of curl.
var form = map[string]any{"Content-Type": []any{"application/x-www-form-urlencoded"}}

// TestCallsOfCrontab compares commands that a timer can call with the calls that curl and wget make.
// TestCallsBehindOtherPrograms reads commands whose call another program makes.
func TestCallsBehindOtherPrograms(t *testing.T) {
	t.Parallel()
	const lock, user = "flock is left out: concurrency.policy", "sudo is left out"
	for text, notes := range map[string][]string{
		`setsid -w curl https://e.com/f`:                               nil,
		`flock /l curl https://e.com/f`:                                {lock},
		`flock -nw 9 /l nice -10 curl https://e.com/f`:                 {lock},
		`flock -E3 --wait 9 /l curl https://e.com/f`:                   {lock},
		`sudo -nu www -- setsid curl https://e.com/f`:                  {user},
		`sudo --user www --group=www flock -x /l curl https://e.com/f`: {user, lock},
	} {
		r := command(t, "@daily "+text)
		require.Equal(t, "https://e.com/f", at(t, r, "target.url"), text)
		require.Len(t, r.Notes, len(notes), text)
		for _, note := range notes {
			requireNote(t, r, note)
		}
	}
	for _, text := range []string{
		`flock /l -c 'curl https://e.com/f'`, `flock -n 9`, `sudo -u`, `sudo A=b curl https://e.com/f`,
	} {
		requireNote(t, command(t, "@daily "+text), "it runs a program")
	}
}

func TestCallsOfCrontab(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]any{
		// Words of the shell.
		`curl "https://e.com/d?a=1&b=2"`:      {"url": "https://e.com/d?a=1&b=2"},
		`curl 'https://e.com/d?a=1&b=2'`:      {"url": "https://e.com/d?a=1&b=2"},
		`curl 'https://e.com/d?a=1;b=2|c'`:    {"url": "https://e.com/d?a=1;b=2|c"},
		`curl https://e.com/d?a=1\&b=2`:       {"url": "https://e.com/d?a=1&b=2"},
		`curl https://e.com/f?x=\%20`:         {"url": "https://e.com/f?x=%20"},
		`curl https://e.com/-XDELETE`:         {"url": "https://e.com/-XDELETE", "method": "GET"},
		"curl\t-X\tPUT\thttps://e.com/f":      {"method": "PUT"},
		`curl example.com/f`:                  {"url": "http://example.com/f"},
		`curl localhost:8080/f`:               {"url": "http://localhost:8080/f"},
		`curl HTTPS://e.com/f`:                {"url": "https://e.com/f"},
		`curl "http://[::1]:8080/f"`:          {"url": "http://[::1]:8080/f"},
		`curl -g 'https://e.com/{a}'`:         {"url": "https://e.com/{a}"},
		`curl --url https://e.com/f`:          {"url": "https://e.com/f"},
		`curl --url=https://e.com/f`:          {"url": "https://e.com/f"},
		`curl -- https://e.com/f`:             {"url": "https://e.com/f"},
		`/usr/bin/curl https://e.com/f`:       {"url": "https://e.com/f"},
		`exec nice -n 5 curl https://e.com/f`: {"url": "https://e.com/f"},
		`nohup curl https://e.com/f &`:        {"url": "https://e.com/f"},
		`cd /tmp && curl https://e.com/f`:     {"url": "https://e.com/f"},
		`(curl https://e.com/f)`:              {"url": "https://e.com/f"},
		`curl https://e.com/f || true`:        {"url": "https://e.com/f"},
		`curl https://e.com/f; exit 0`:        {"url": "https://e.com/f"},
		`curl https://e.com/f >/dev/null 2>&1`: {
			"url": "https://e.com/f",
		},
		`curl -o /dev/null -w '\%{http_code}' https://e.com/f`: {"url": "https://e.com/f"},
		`curl https://e.com/f </dev/null`:                      {"url": "https://e.com/f"},

		// Methods and bodies.
		`curl -d "{\"a\":1}" https://e.com`: {"method": "POST", "body": `{"a":1}`, "headers": form},
		`curl -d '{"a":   "b  c"}' https://e.com`: {
			"method": "POST", "body": `{"a":   "b  c"}`, "headers": form,
		},
		`curl -d a=1 -d b=2 https://e.com`:         {"body": "a=1&b=2", "headers": form},
		`curl -da=1 https://e.com`:                 {"body": "a=1", "headers": form},
		`curl -d=1 https://e.com`:                  {"body": "=1", "headers": form},
		`curl --data a=1 https://e.com`:            {"body": "a=1", "headers": form},
		`curl --data=a=1 https://e.com`:            {"body": "a=1", "headers": form},
		`curl --data-raw @a https://e.com`:         {"body": "@a", "headers": form},
		`curl --data-binary 'a b' https://e.com`:   {"body": "a b", "headers": form},
		`curl --data-urlencode 'a=b c&' e.com`:     {"body": "a=b%20c%26", "headers": form},
		`curl --data-urlencode '=b+c' e.com`:       {"body": "b%2Bc", "headers": form},
		`curl -d '' https://e.com`:                 {"method": "POST", "headers": form},
		`curl -sSfX PATCH -d x https://e.com`:      {"method": "PATCH", "body": "x"},
		`curl -XDELETE https://e.com`:              {"method": "DELETE"},
		`curl --request=DELETE https://e.com`:      {"method": "DELETE"},
		`curl -I https://e.com`:                    {"method": "HEAD"},
		`curl -G -d a=1 -d b=2 https://e.com/f`:    {"method": "GET", "url": "https://e.com/f?a=1&b=2"},
		`curl -Gd a=1 'https://e.com/f?x=2'`:       {"method": "GET", "url": "https://e.com/f?x=2&a=1"},
		`curl -d @- https://e.com %a=1%b=2`:        {"body": "a=1b=2", "headers": form},
		`curl --data-binary @- https://e.com %a%b`: {"body": "a\nb\n"},
		`curl --data-binary @- https://e.com %\%`:  {"body": "%\n"},
		`curl --json '{"a":1}' https://e.com`: {
			"method": "POST", "body": `{"a":1}`,
			"headers": map[string]any{
				"Content-Type": []any{"application/json"}, "Accept": []any{"application/json"},
			},
		},
		`curl -H 'content-type: text/plain' -d x https://e.com`: {
			"headers": map[string]any{"Content-Type": []any{"text/plain"}},
		},
		`curl -H 'Content-Type:' -d x https://e.com`: {"headers": nil},
		`curl -H 'X-A: 1' -H "X-A: 2" -A me -e https://a.com -r 0-9 https://e.com`: {
			"headers": map[string]any{
				"X-A": []any{"1", "2"}, "User-Agent": []any{"me"}, "Referer": []any{"https://a.com"},
				"Range": []any{"bytes=0-9"},
			},
		},

		// Redirects.
		`curl https://e.com`:                                     {"redirects": nil},
		`curl --max-redirs 3 https://e.com`:                      {"redirects": nil},
		`curl -L https://e.com`:                                  {"redirects": 10.0},
		`curl --max-redirs 3 -L https://e.com`:                   {"redirects": 3.0},
		`curl --http1.1 https://e.com`:                           {"http2": "never"},
		`wget -qO- --max-redirect=0 e.com`:                       {"redirects": nil},
		`wget -q -O /dev/null https://e.com/f`:                   {"method": "GET", "redirects": 10.0},
		`wget -nv --max-redirect=0 --spider "https://e.com?a&b"`: {"method": "HEAD", "url": "https://e.com?a&b"},
		`wget -qO- --user-agent=me https://e.com`:                {"headers": map[string]any{"User-Agent": []any{"me"}}},
		`wget -qO- --max-redirect=0 --post-data='a=1&b=2' https://e.com`: {
			"method": "POST", "body": "a=1&b=2", "headers": form,
		},
		`wget -qO- --max-redirect 0 --method=PUT --body-data=x --header 'X-A: 1' https://e.com`: {
			"method": "PUT", "body": "x",
		},

		// Variables of the crontab.
		"URL=https://e.com/f?a\n@daily curl \"$URL\"":     {"url": "https://e.com/f?a"},
		"HOST='e.com'\n@daily curl https://${HOST}/a":     {"url": "https://e.com/a"},
		"A='x y'\n@daily curl -d \"$A\" e.com":            {"body": "x y"},
		"SHELL=/bin/bash\n@daily curl $'https://e.com/a'": {"url": "https://e.com/a"},
	} {
		if !strings.Contains(text, "@daily") {
			text = "@daily " + text
		}
		r := command(t, text)
		requireNote(t, r, "")
		require.Equal(t, "active", at(t, r, "status"))
		for field, value := range want {
			require.Equal(t, value, at(t, r, "target."+field), "%s: %s", text, field)
		}
	}
}

// TestNotesOfCrontab imports commands that a timer calls otherwise than curl or wget. A note names
// each difference.
func TestNotesOfCrontab(t *testing.T) {
	t.Parallel()
	const active, inactive = "active", "inactive"
	for _, c := range []struct {
		text, status, note string
	}{
		{`curl -u me:pw https://e.com`, inactive, "-u is left out, as it is a secret"},
		{`curl -u "$ME:$PW" https://e.com`, inactive, "by target.secret_headers"},
		{`curl https://me:pw@e.com/f`, inactive, "the user in its URL is left out"},
		{`curl -H 'Authorization: x' https://e.com`, inactive, "the header Authorization is left out"},
		{`curl -H "Authorization: $X" https://e.com`, inactive, "the header Authorization is left out"},
		{`curl -H 'X-Api-Key: x' https://e.com`, inactive, "the header X-Api-Key is left out"},
		{`curl -b a=1 https://e.com`, inactive, "-b is left out"},
		{`curl -n https://e.com`, inactive, "-n is left out"},
		{`curl --cert a.pem https://e.com`, inactive, "target.tls.cert"},
		{`wget -qO- --user=me --password=pw https://e.com`, inactive, "--password is left out"},
		{`curl -k https://e.com`, active, "-k is left out: certificates are verified"},
		{`curl --cacert ca.pem https://e.com`, active, "target.tls.ca"},
		{`wget -qO- --no-check-certificate https://e.com`, active, "certificates are verified"},
		{`curl -x proxy:3128 https://e.com`, active, "-x is left out"},
		{`curl -H 'Content-Length: 1' https://e.com`, active, "the header Content-Length is left out"},
		{`curl --connect-timeout 5 https://e.com`, active, "--connect-timeout is left out"},
		{`curl -L -d x https://e.com`, active, "is not followed, as it would make the POST a GET"},
		{`wget -q --spider https://e.com`, active, "as it would make the HEAD a GET"},
		{`curl -L --max-redirs 50 https://e.com`, active, "target.redirects is 10"},
		{`curl -o out.json https://e.com`, active, "the answer is not written to out.json"},
		{`curl -o "$(date).json" https://e.com`, active, "the answer is not written to"},
		{`curl https://e.com >> log 2>&1`, active, "the answer is not written to log"},
		{`wget -q https://e.com/f`, active, "the answer is not written to a file"},
		{`curl https://e.com | logger -t x`, active, "left out: | logger -t x"},
		{`curl https://e.com && echo done; true`, active, "left out: && echo done; true"},
		{`curl https://e.com || echo curl failed`, active, "left out: || echo curl failed"},
		{`A=1 curl https://e.com`, active, "the variable A is left out"},
		{`curl -m 301 https://e.com`, active, "-m asks for a timeout of 5m1s"},
		{`curl -m 0.009 https://e.com`, active, "-m asks for a timeout of 9ms"},
		{`curl --retry 20 https://e.com`, active, "--retry asks for 21 attempts"},
		{`timeout 30 curl --retry 2 https://e.com`, active, "timeout is for each attempt"},
		{`wget -qO- --tries=0 https://e.com`, active, "retry.attempts is 20"},
		{`wget -qO- -T 9 https://e.com`, active, "-T is retry.timeout"},
	} {
		r := command(t, "@daily "+c.text)
		requireNote(t, r, c.note)
		require.NotEqual(t, program, at(t, r, "target.url"), c.text)
		require.Equal(t, c.status, at(t, r, "status"), c.text)
		require.NotContains(t, at(t, r, "target.url"), "pw")
		require.Nil(t, at(t, r, "target.secret_headers"))
	}
}

// TestCommandsThatAreNoCall imports commands whose call a timer cannot make. They run as programs
// do, by the URL of the options, and a note says why.
func TestCommandsThatAreNoCall(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		`curl -d @/etc/payload.json https://e.com`:         "-d reads its body from /etc/payload.json",
		`curl --data-binary @f https://e.com`:              "--data-binary reads its body from f",
		`curl --json @f https://e.com`:                     "--json reads its body from f",
		`curl --data-urlencode a@f https://e.com`:          "--data-urlencode reads a file",
		`curl -H @f https://e.com`:                         "-H reads headers from a file",
		`curl -F a=b https://e.com`:                        "-F sends a form of several parts",
		`curl -T f https://e.com`:                          "-T reads a file",
		`wget --post-file=f https://e.com`:                 "--post-file reads a file",
		`curl https://e.com/a https://e.com/b`:             "it calls several URLs",
		`curl https://e.com/a && curl https://e.com/b`:     "it makes several calls",
		`curl https://e.com/a; curl https://e.com/b`:       "it makes several calls",
		`curl https://e.com/a | xargs -n1 curl`:            "it makes several calls",
		`curl https://e.com/a --next https://e.com/b`:      "--next makes several calls",
		`curl 'https://e.com/{a,b}'`:                       "stands for several URLs",
		`curl 'https://e.com/[1-3]'`:                       "stands for several URLs",
		`curl https://e.com/$(date +\%F)`:                  "$(date +%F) is the output of a command",
		"curl https://e.com/`date`":                        "`date` is the output of a command",
		`curl "https://e.com/$HOST"`:                       "$HOST is only known when the command runs",
		`curl https://e.com/$((1+1))`:                      "is only known when the command runs",
		`curl $OPTS https://e.com`:                         "$OPTS is only known when the command runs",
		`echo '{}' | curl -d @- https://e.com`:             "it reads the output of another command",
		`curl -d @- https://e.com < f`:                     "it reads f",
		`sleep 30; curl https://e.com`:                     `"sleep 30" runs before it`,
		`[ -f ready ] && curl https://e.com`:               `"[ -f ready ]" runs before it`,
		`! curl https://e.com`:                             "it has a !",
		`curl --unknown https://e.com`:                     "does not know its option --unknown",
		`curl --silent=1 https://e.com`:                    "--silent takes no value",
		`curl https://e.com -X`:                            "-X has no value",
		`curl`:                                             "it names no URL",
		`curl ftp://e.com/f`:                               "is no URL of http or https",
		`curl ftp.e.com/f`:                                 "is no URL of http or https",
		`curl -m soon https://e.com`:                       "-m: expected a number",
		`curl 'https://e.com`:                              "the shell cannot read it",
		`curl -d {1..999999999} https://e.com`:             "does not stand for one word",
		`/usr/bin/cleanup --all`:                           "it runs a program",
		`curly https://e.com`:                              "it runs a program",
		`if true; then curl https://e.com; fi`:             "it runs a program",
		`wget -r https://e.com`:                            "-r makes several calls",
		"A='x y'\n@daily curl https://e.com/$A":            "$A does not stand for one word",
		"SHELL=/bin/bash\n@daily curl https://e.com/{a,b}": "does not stand for one word",
	} {
		if !strings.Contains(text, "@daily") {
			text = "@daily " + text
		}
		r := command(t, text)
		requireNote(t, r, why)
		requireNote(t, r, "it runs a program, which the timer does not")
		require.Equal(t, program, at(t, r, "target.url"), text)
		require.Nil(t, at(t, r, "target.body"), text)
	}
}

// TestRetriesOfCrontab compares how often and how long a call is attempted.
func TestRetriesOfCrontab(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]any{
		`curl e.com`:                     {"attempts": 1.0, "timeout": "5m0s"},
		`curl --retry 3 e.com`:           {"attempts": 4.0, "max_wait": "10m"},
		`curl --retry=3 -m 10 e.com`:     {"attempts": 4.0, "timeout": "10s"},
		`curl --retry 19 -m 300 e.com`:   {"attempts": 20.0, "timeout": "5m0s"},
		`curl --max-time 0.01 e.com`:     {"timeout": "10ms"},
		`timeout 30 curl e.com`:          {"timeout": "30s"},
		`timeout -k 5 1m curl -m9 e.com`: {"timeout": "9s"},
		`wget -qO- -t 2 e.com`:           {"attempts": 2.0, "timeout": "5m0s", "no_retry": "300-999"},
		`wget -qO- e.com`:                {"attempts": nil},
		`curl --retry 1 --retry-delay 5 e.com`: {
			"attempts": 2.0, "wait": "5s", "factor": 1.0, "no_retry": "300-407,409-428,430-499,501,505-999",
		},
		`curl --retry 1 --retry-all-errors e.com`: {"no_retry": nil},
	} {
		r := command(t, "@daily "+text)
		requireNote(t, r, "")
		for field, value := range want {
			require.Equal(t, value, at(t, r, "retry."+field), "%s: %s", text, field)
		}
	}
}

// TestLinesOfCrontab reads schedules, time zones and other variables.
func TestLinesOfCrontab(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, path string
		want       any
		note       string // "" for none
	}{
		{"@daily\tcurl e.com", "schedule.specs", []any{"@daily"}, ""},
		{"0\t 9 * *  1-5\t\tcurl e.com", "schedule.specs", []any{"0 9 * * 1-5"}, ""},
		{"CRON_TZ=Europe/Berlin\n@daily curl e.com", "schedule.time_zone", "Europe/Berlin", ""},
		{
			"CRON_TZ=\"Europe/Berlin\"\nTZ=UTC\n@daily curl e.com",
			"schedule.time_zone", "Europe/Berlin", "",
		},
		{
			"TZ=Europe/Berlin\n@daily curl e.com", "schedule.time_zone", "Europe/Berlin",
			"TZ is taken as the time zone",
		},
		{"0 0 */2 * 5 curl e.com", "status", "inactive", "cron is due on days that match both fields"},
		{"0 0 1 * */2 curl e.com", "status", "inactive", "cron is due on days that match both fields"},
		{"0 0 */2,5 * 1 curl e.com", "status", "inactive", "cron is due on days that match both fields"},
		{"0 0 5,* * 1 curl e.com", "status", "inactive", "cron is due on days that match either field"},
		{"0 0 */2 * * curl e.com", "status", "active", ""},
		{"0 0 */1 * 5 curl e.com", "status", "active", ""},
		{"0 0 * * */2 curl e.com", "status", "active", ""},
		{"0 0 1,15 * 5 curl e.com", "status", "active", ""},
		{"0 0 1-31/2 * 5 curl e.com", "status", "active", ""},
		{"5/15 * * * * curl e.com", "status", "active", "5/15 is read as every such step"},
		{"@daily curl 'https://e.com/ä'", "name", "e.com", ""},
		{
			"@daily curl -u me:pw -d @f $(date) https://e.com/h", "name", "e.com-h",
			"-d reads its body from f",
		},
		{"@daily curl -u me:pw $(date)", "name", "curl", "$(date) is the output of a command"},
	} {
		r := command(t, c.text)
		requireNote(t, r, c.note)
		require.Equal(t, c.want, at(t, r, c.path), c.text)
	}
	for text, why := range map[string]string{
		"@reboot curl e.com":                 "@reboot is no schedule",
		"* * * * *":                          "expected five fields and a command",
		"@daily":                             "expected five fields and a command",
		"@daily curl 'https://e.com/\xe4'":   "convert the file",
		"@daily root curl e.com":             "root is a user before the command: give --from cron.d",
		"*/60 * * * * curl e.com":            "the schedule cannot be carried over: schedule.specs[0]",
		"@daily curl 'https://e.com:99999/'": "target.url",
		"@daily curl -X get e.com":           "target.method: expected GET",
	} {
		r := command(t, text)
		require.Nil(t, r.Manifest, text)
		requireNote(t, r, why)
	}
	all, err := importer.Read("crontab", []byte("@daily curl e.com"), importer.Options{App: "shop"})
	require.NoError(t, err)
	requireNote(t, all[0], "it used the time zone of the host of cron: give it by --tz")
	all, err = importer.Read("crontab", []byte("A=1\nB=2\n@daily curl e.com/$B"), someOptions)
	require.NoError(t, err)
	require.Len(t, all, 2, "what becomes part of a call is not left out")
	require.Nil(t, all[0].Manifest)
	require.Empty(t, all[0].Refused, "it is no entry")
	require.Equal(t, []string{"A is left out: it is of the environment of commands"}, all[0].Notes)
}

// TestUsersOfCrontab imports files that name a user before each command.
func TestUsersOfCrontab(t *testing.T) {
	t.Parallel()
	r := read(t, "cron.d", "17 * * * *\twww-data\tcurl e.com/ping")
	requireNote(t, r, "")
	require.Equal(t, "http://e.com/ping", at(t, r, "target.url"))
	r = read(t, "cron.d", "@daily root /usr/bin/cleanup")
	requireNote(t, r, "cron ran it as the user root")
	for text, why := range map[string]string{
		"@daily curl e.com": "curl is no user before the command: give --from crontab",
		"@daily root":       "expected a schedule, a user and a command",
		"* * * *":           "expected five fields and a command",
		"@reboot root ls":   "@reboot is no schedule",
	} {
		r := read(t, "cron.d", text)
		require.Nil(t, r.Manifest, text)
		requireNote(t, r, why)
	}
}
