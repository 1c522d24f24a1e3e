package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
)

type settings struct {
	http  config.HTTP
	redis config.Redis
	time  config.Timing
	mysql config.MySQL
}

func load(
	t *testing.T,
	file string,
	env map[string]string,
	args ...string,
) (settings, string, error) {
	t.Helper()
	var s settings
	if file != "" {
		path := filepath.Join(t.TempDir(), "settings.yaml")
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
		args = append([]string{"-config", path}, args...)
	}
	var out bytes.Buffer
	get := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	err := config.NewSet("carillon-x", &s.http, &s.redis, &s.time, &s.mysql).Load(args, get, &out)
	return s, out.String(), err
}

const least = "redis-addrs: [a:1, b:2]\nmysql: {dsn: 'u:pw@tcp(h:1)/d'}\n"

func TestLaterSourceWins(t *testing.T) {
	t.Parallel()
	s, _, err := load(t, least, nil)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", s.http.Addr)
	require.Equal(t, []string{"a:1", "b:2"}, s.redis.Addrs)

	s, _, err = load(t, least+"http: {addr: ':1'}", nil)
	require.NoError(t, err)
	require.Equal(t, ":1", s.http.Addr)

	env := map[string]string{
		"CARILLON_HTTP_ADDR":     ":2",
		"CARILLON_EXPAND_AHEAD":  "2m",
		"CARILLON_DISPATCH_LEAD": "",
	}
	s, _, err = load(t, least+"http: {addr: ':1'}", env)
	require.NoError(t, err)
	require.Equal(t, ":2", s.http.Addr)
	require.Equal(t, 2*time.Minute, s.time.ExpandAhead)
	require.Equal(t, 2*time.Second, s.time.DispatchLead, "an empty variable counts as none")

	s, _, err = load(t, least+"http: {addr: ':1'}", env, "-http-addr", ":3")
	require.NoError(t, err)
	require.Equal(t, ":3", s.http.Addr)
}

// TestFileIsTakenAsWritten checks that a value in a file is the text that a flag would have.
func TestFileIsTakenAsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0123":                    "0123",
		"1e3":                     "1e3",
		"1.50":                    "1.50",
		"1_000":                   "1_000",
		"2026-11-27T14:47:53Z":    "2026-11-27T14:47:53Z",
		"yes":                     "yes",
		"'quoted: text'":          "quoted: text",
		"[0123, 'a', &x 1e3, *x]": "0123,a,1e3,1e3",
		"~":                       "carillon",
		"":                        "carillon",
	} {
		s, _, err := load(t, least+"redis-prefix: "+text+"\n", nil)
		require.NoError(t, err, text)
		require.Equal(t, want, s.redis.Prefix, text)
	}
	for text, want := range map[string]string{
		"redis-prefix: a\nredis-prefix: b\n":      "already defined",
		"redis-prefix: [{a: b}]\n":                "redis-prefix: a list of texts is wanted",
		"redis: &r {prefix: a}\nhttp: {<<: *r}\n": "merge keys",
		"- redis-prefix\n":                        "not a YAML mapping of settings",
		"redis-prefix: a\n---\nredis-db: 1\n":     "expected one document, found more in line 2",
		"text":                                    "not a YAML mapping of settings",
	} {
		_, _, err := load(
			t,
			text,
			map[string]string{
				"CARILLON_REDIS_ADDRS": "a:1",
				"CARILLON_MYSQL_DSN":   "u:pw@tcp(h:1)/d",
			},
		)
		require.ErrorContains(t, err, want, text)
	}
	_, _, err := load(
		t,
		"# nothing\n",
		map[string]string{"CARILLON_REDIS_ADDRS": "a:1", "CARILLON_MYSQL_DSN": "u:pw@tcp(h:1)/d"},
	)
	require.NoError(t, err)
}

// TestFileGivesASettingOnce spells a setting of a file in two ways. None of them is dropped without
// a word.
func TestFileGivesASettingOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"http-addr: ':1'\nhttp_addr: ':2'\n": {
			"http-addr: given twice, as http-addr in line 3 and as http_addr in line 4: keep one of them",
		},
		"http:\n  addr: ':1'\nhttp-addr: ':1'\n": {
			"http-addr: given twice, as http: addr in line 4 and as http-addr in line 5: keep one of them",
		},
		"http_addr: ':1'\nhttp: {addr: ':2'}\nhttp-addr: ':3'\n": {
			"as http_addr in line 3 and as http: addr in line 4",
			"as http: addr in line 4 and as http-addr in line 5",
		},
		"expand: {ahead: 1m}\nexpand_ahead: 2m\nredis: {addrs: c:1}\n": {
			"expand-ahead: given twice, as expand: ahead in line 3 and as expand_ahead in line 4",
			"redis-addrs: given twice, as redis-addrs in line 1 and as redis: addrs in line 5",
		},
		// Of another program, which may not read the file yet.
		"oidc: {roles: [a=admin@*, b=viewer@*]}\noidc-roles: c=admin@*\n": {
			"oidc-roles: given twice, as oidc: roles in line 3 and as oidc-roles in line 4",
		},
	} {
		_, _, err := load(t, least+text, nil)
		for _, w := range want {
			require.ErrorContains(t, err, w, text)
		}
	}
	_, _, err := load(t, least+"http: {addr: ':1', read_header_timeout: ~}\nhttp_addr: ~\n", nil)
	require.NoError(t, err, "a name without a value gives none")

	var o config.OIDC
	path := filepath.Join(t.TempDir(), "settings.yaml")
	require.NoError(t, os.WriteFile(
		path, []byte("oidc: {roles: [a=admin@*]}\noidc-roles: [c=admin@*]\n"), 0o600))
	none := func(string) (string, bool) { return "", false }
	err = config.NewSet("carillon-x", &o).Load([]string{"-config", path}, none, io.Discard)
	require.ErrorContains(t, err, "oidc-roles: given twice")
}

func TestFileByEnvironment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(
		t,
		os.WriteFile(path, []byte(least+"retention: 48h # of another component\n"), 0o600),
	)
	s, _, err := load(t, "", map[string]string{"CARILLON_CONFIG": path})
	require.NoError(t, err)
	require.Equal(t, "u:pw@tcp(h:1)/d", s.mysql.DSN.Reveal())
}

func TestDurationsMayHaveDays(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var c config.Retention
	set := config.NewSet("carillon-x", &c)
	none := func(string) (string, bool) { return "", false }
	require.ErrorIs(
		t,
		set.Load([]string{"-retention", "7d12h", "-print-config"}, none, &out),
		config.ErrDone,
	)
	require.Contains(t, out.String(), "180h0m0s")
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, _, err := load(
		t,
		"htp-addr: x\n",
		map[string]string{"CARILLON_EXPAND_AHEAD": "soon"},
		"-dispatch-lead",
		"x",
	)
	var p *config.Problems
	require.ErrorAs(t, err, &p)
	require.Len(t, p.List, 5)
	require.Contains(t, p.List[0], `unknown setting "htp-addr"`)
	require.Contains(t, p.List[1], `dispatch-lead (flag -dispatch-lead): "x" is not a duration`)
	require.Contains(t, p.List[2], `expand-ahead (environment CARILLON_EXPAND_AHEAD): "soon"`)
	require.Contains(t, err.Error(), "mysql-dsn: missing", "of another part, which can be checked")

	_, _, err = load(t, "", nil, "-http-addr", "nowhere", "-dispatch-lead", "1h")
	require.ErrorAs(t, err, &p)
	require.Len(t, p.List, 4)
	require.Contains(
		t,
		err.Error(),
		"mysql-dsn: missing (flag -mysql-dsn or environment CARILLON_MYSQL_DSN)",
	)
	require.Contains(t, err.Error(), `http-addr: "nowhere" is not host:port`)
	require.Contains(t, err.Error(), "lead: 1h0m0s is more than 10s")
}

func TestBadCommandLine(t *testing.T) {
	t.Parallel()
	good := map[string]string{"CARILLON_REDIS_ADDRS": "a:1", "CARILLON_MYSQL_DSN": "d"}
	for _, args := range [][]string{{"-foo"}, {"extra"}, {"-http-addr"}, {"-config", "/does/not/exist"}} {
		_, _, err := load(t, "", good, args...)
		var p *config.Problems
		require.ErrorAs(t, err, &p, "%v", args)
		require.Len(t, p.List, 1, "%v", args)
	}
}

func TestPrintConfig(t *testing.T) {
	t.Parallel()
	_, out, err := load(
		t,
		least,
		map[string]string{"CARILLON_REDIS_PASSWORD": "hunter2"},
		"-print-config",
		"-http-addr=:7",
	)
	require.ErrorIs(t, err, config.ErrDone)
	require.Contains(t, out, `http-addr: ":7" # flag -http-addr`)
	require.Contains(t, out, `mysql-dsn: "u:REDACTED@tcp(h:1)/d" # file `)
	require.Contains(t, out, `redis-password: "REDACTED" # environment CARILLON_REDIS_PASSWORD`)
	require.Contains(t, out, `lead: "2s" # default`)
	require.NotContains(t, out, "hunter2")
	require.NotContains(t, out, "pw@")

	_, out, err = load(t, "", nil, "-help")
	require.ErrorIs(t, err, config.ErrDone)
	require.Contains(t, out, "-redis-addrs")
}

func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"u:p@ss/w@tcp(h:1)/d?parseTime=true": "u:REDACTED@tcp(h:1)/d?parseTime=true",
		"u@tcp(h:1)/d":                       "u@tcp(h:1)/d",
		"pulsar://h:6650":                    "pulsar://h:6650",
		"https://u:p@h:1/x?Token=abc&a=b":    "https://u:REDACTED@h:1/x?Token=REDACTED&a=b",
		"":                                   "",
	} {
		require.Equal(t, want, config.DSN(in).String())
		require.Equal(t, want, fmt.Sprintf("%v", config.DSN(in)))
	}
	v := struct {
		S config.Secret
		D config.DSN
	}{"hunter2", "u:hunter2@tcp(h)/d"}
	j, err := json.Marshal(v)
	require.NoError(t, err)
	var log bytes.Buffer
	zl := zerolog.New(&log)
	zl.Info().Any("v", v).Stringer("s", v.S).Stringer("d", v.D).Send()
	require.NotContains(
		t,
		fmt.Sprintf("%v %+v %#v %s %q", v, v, v, v, v)+string(j)+log.String(),
		"hunter2",
	)
	require.Equal(t, "hunter2", v.S.Reveal())
}

// TestLimitsOfOperators checks the limits that operators may set, and their bounds.
func TestLimitsOfOperators(t *testing.T) {
	t.Parallel()
	var (
		e config.Executor
		m config.MySQL
		p config.Pulsar
	)
	read := func(args ...string) error {
		args = append([]string{
			"-mysql-dsn",
			"u@tcp(h:1)/d",
			"-pulsar-url",
			"pulsar://h:1",
			"-pulsar-admin-url",
			"http://h:1",
		}, args...)
		none := func(string) (string, bool) { return "", false }
		return config.NewSet("carillon-x", &e, &m, &p).Load(args, none, io.Discard)
	}
	require.NoError(t, read())
	require.Equal(t, config.Executor{Calls: 512, Inflight: 250_000}, e)
	require.Equal(t, []int{16, 4}, []int{m.Connections, p.Partitions})
	require.NoError(t, read("-executor-calls", "64", "-mysql-connections", "8"))
	require.Equal(t, []int{64, 8}, []int{e.Calls, m.Connections})
	require.Equal(t, 250_000, e.MaxInflight())
	require.NoError(t, read("-executor-calls", "512", "-executor-inflight", "1000"))
	require.Equal(t, 8*512, e.MaxInflight(), "calls alone do not fill it")
	for _, name := range []string{
		"executor-calls", "executor-inflight", "mysql-connections", "pulsar-partitions",
	} {
		require.ErrorContains(t, read("-"+name, "0"), name+": 0 is not between")
		require.ErrorContains(t, read("-"+name, "100000000"), name)
	}
}

func TestPulsarNames(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		"carillon": true, "a-b_c=d:e.F9": true, "": false, "a/b": false, "a b": false, "ä": false, "a\n": false,
	} {
		c := config.Pulsar{
			URL: "pulsar://a", AdminURL: "http://a", Tenant: text, Namespace: text, Partitions: 1,
		}
		err := c.Validate()
		if valid {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, "pulsar-tenant: expected letters", text)
		require.ErrorContains(t, err, "pulsar-namespace: expected letters", text)
	}
}

// TestAddressesShowNoPassword gives URLs where addresses are expected.
func TestAddressesShowNoPassword(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"redis://:hunter2@h:1", "redis://u:hunter2@h"} {
		_, _, err := load(t, "", nil, "-redis-addrs", addr)
		require.ErrorContains(t, err, "is not host:port")
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, _, err := load(t, "", nil, "-http-addr", "127.0.0.1:99999")
	require.ErrorContains(t, err, `http-addr: "127.0.0.1:99999" has no port from 0 to 65535`)
}

func TestPulsarAddresses(t *testing.T) {
	t.Parallel()
	for url, problem := range map[string]string{
		"a:6650,b:6650,[::1]:6650": "",
		"a":                        "",
		"a:6650,b":                 `"b" is not host:port`,
		"a:6650,,b:6650":           "not a URL of hosts separated by commas",
	} {
		for name, scheme := range map[string]string{"url": "pulsar+ssl", "admin-url": "https"} {
			c := config.Pulsar{
				URL: "pulsar://a", AdminURL: "http://a", Tenant: "t", Namespace: "n", Partitions: 1,
			}
			to := &c.URL
			if name == "admin-url" {
				to = &c.AdminURL
			}
			*to = config.DSN(scheme + "://" + url)
			err := c.Validate()
			if problem == "" {
				require.NoError(t, err, "%s %s", name, url)
				continue
			}
			require.ErrorContains(t, err, problem)
			require.ErrorContains(t, err, "pulsar-"+name)
		}
	}
}

func TestSentinelLoginNeedsMaster(t *testing.T) {
	t.Parallel()
	c := config.Redis{Addrs: []string{"a:1"}, Prefix: "p"}
	c.Sentinel.Password = "hunter2"
	require.ErrorContains(t, c.Validate(), "redis-sentinel-master names the master")
	require.NotContains(t, c.Validate().Error(), "hunter2")
	c.Sentinel.Master = "m"
	require.NoError(t, c.Validate())
}

// TestValuesOfFlagsThatAreTrue checks that the mistake of a blank before such a value is told with
// its remedy.
func TestValuesOfFlagsThatAreTrue(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-mysql-tls", "--mysql-tls"} {
		_, _, err := load(t, least, nil, flag, "false", "-log-level", "debug")
		require.ErrorContains(
			t,
			err,
			`carillon-x: unexpected argument "false": write -mysql-tls=false`,
		)
	}
	for _, args := range [][]string{{"x"}, {"-mysql-tls=true", "x"}, {"-http-addr", "mysql-tls", "x"}, {"--", "x"}} {
		_, _, err := load(t, least, nil, args...)
		require.ErrorContains(t, err, `unexpected argument "x" (-help lists the flags)`, args)
	}
}

// TestListenersNeedTwoPorts checks the addresses of the API and of probes against each other.
func TestListenersNeedTwoPorts(t *testing.T) {
	t.Parallel()
	for addrs, conflict := range map[[2]string]bool{
		{"127.0.0.1:8080", "127.0.0.1:8080"}: true,
		{"127.0.0.1:8080", ":8080"}:          true,
		{"0.0.0.0:8080", "10.0.0.1:8080"}:    true,
		{"[::]:8080", "127.0.0.1:8080"}:      true,
		{"Localhost:8080", "localhost:8080"}: true,
		{"127.0.0.1:8080", "10.0.0.1:8080"}:  false,
		{"127.0.0.1:8080", "127.0.0.1:8081"}: false,
		{"127.0.0.1:0", "127.0.0.1:0"}:       false,
		{"nowhere", "nowhere"}:               false,
	} {
		err := (&config.Listeners{
			HTTP: &config.HTTP{Addr: addrs[0]}, Admin: &config.Admin{Addr: addrs[1]},
		}).Validate()
		if conflict {
			require.ErrorContains(t, err, "http-addr, admin-addr: "+addrs[0]+" and "+addrs[1])
		} else {
			require.NoError(t, err, addrs)
		}
	}
}

// TestRetentionIsBounded refuses retentions whose sums would overflow, so that everything would look
// old.
func TestRetentionIsBounded(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]string{
		"retention": "876000h", "audit-retention": "876000h", "one-shot-retention": "876048h",
	} {
		var r config.Retention
		err := config.NewSet("carillon-x", &r).Load(
			[]string{"-" + name, "106751d"},
			func(string) (string, bool) { return "", false },
			io.Discard,
		)
		require.ErrorContains(t, err, name+": 2562024h0m0s is more than "+most)
	}
}

// TestOneShotsStayAsLongAsTheirOutcomes refuses a retention of one-shots that would take timers from
// the history.
func TestOneShotsStayAsLongAsTheirOutcomes(t *testing.T) {
	t.Parallel()
	for given, refused := range map[string]string{
		"0":    "",
		"216h": "",
		"168h": "one-shot-retention: 168h0m0s is less than 216h0m0s, which is retention and 48h0m0s",
	} {
		var r config.Retention
		err := config.NewSet("carillon-x", &r).Load(
			[]string{"-one-shot-retention", given},
			func(string) (string, bool) { return "", false },
			io.Discard,
		)
		if refused == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, refused)
	}
}
