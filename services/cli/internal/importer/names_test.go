package importer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/importer"
)

// TestNamesHaveNoSecrets checks that names of timers leave out the parts of a URL and of a command that
// often are secrets, and stay unique.
func TestNamesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`curl 'https://e.com/cron.php?key=SECRET'`:             "e.com-cron.php",
		`curl 'e.com/cron.php?key=SECRET'`:                     "e.com-cron.php",
		`curl 'https://e.com/?key=SECRET'`:                     "e.com",
		`curl 'https://e.com?key=SECRET'`:                      "e.com",
		`curl 'https://e.com/a#SECRET'`:                        "e.com-a",
		`curl -G -d key=SECRET https://e.com/a`:                "e.com-a",
		`wget -q "https://e.com/a?key=SECRET" $(date)`:         "e.com-a",
		`curl https://me:SECRET@e.com/a`:                       "e.com-a",
		`/usr/bin/get 'https://me:SECRET@e.com/a?key=SECRET'`:  "usr-bin-get",
		`flock -n sync.lock curl -u me:SECRET https://e.com/a`: "e.com-a",
		`flock -n sync.lock /bin/get -u me:SECRET`:             "flock",
		`flock -n sync.lock -c 'curl -u me:SECRET e.com'`:      "flock",
		`sudo /usr/bin/curl -H "X-Token: SECRET" e.com`:        "e.com",
		`mysqldump -uroot -pSECRET db`:                         "mysqldump",
		`TOKEN=SECRET ./sync.sh all`:                           "sync.sh-all",
		`cd /srv && python manage.py clear --key SECRET`:       "cd-srv-python-manage.py-clear",
		`"$HOME/x" SECRET`:                                     "command",
	} {
		r := command(t, "@daily "+text)
		require.Equal(t, want, at(t, r, "name"), text)
	}
	all, err := importer.Read("crontab", []byte(
		"@daily curl 'https://e.com/a?key=SECRET1'\n@daily curl 'https://e.com/a?key=SECRET2'\n",
	), someOptions)
	require.NoError(t, err)
	require.Equal(t, "e.com-a", at(t, all[0], "name"))
	require.Equal(t, "e.com-a-2", at(t, all[1], "name"))
	require.Equal(t, "https://e.com/a?key=SECRET2", at(t, all[1], "target.url"))
}

// TestBytesOfFiles imports files that begin with a byte order mark, and one that is no UTF-8.
func TestBytesOfFiles(t *testing.T) {
	t.Parallel()
	for system, file := range map[string]string{
		"crontab":     "0 9 * * * curl https://example.com/",
		"cron.d":      "0 9 * * * root curl https://example.com/",
		"kubernetes":  `{"kind":"CronJob","metadata":{"name":"a"},"spec":{"schedule":"0 9 * * *"}}`,
		"xtimer":      `[{"name":"a","cron":"0 9 * * *","notifyHTTPParam":{"url":"https://example.com"}}]`,
		"xxl-job":     `[{"id":1,"jobDesc":"a","scheduleType":"FIX_RATE","scheduleConf":"60"}]`,
		"eventbridge": `{"Name":"a","ScheduleExpression":"rate(1 hour)"}`,
	} {
		require.Equal(t, read(t, system, file), read(t, system, "\ufeff"+file), system)
	}
	for _, system := range []string{"eventbridge", "xtimer", "xxl-job"} {
		_, err := importer.Read(system, []byte("[{\"name\":\"caf\xe9\"}]"), someOptions)
		require.ErrorContains(t, err, "expected UTF-8 text: convert the file", system)
	}
}
