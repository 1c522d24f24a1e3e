package cli_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/testenv"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/cli"
)

// topics runs the command against a Pulsar namespace.
func topics(t *testing.T, p testenv.PulsarNamespace, args ...string) (string, error) {
	t.Helper()
	env := map[string]string{
		"CARILLON_PULSAR_ADMIN_URL": p.AdminURL,
		"CARILLON_PULSAR_TENANT":    p.Tenant,
		"CARILLON_PULSAR_NAMESPACE": p.Namespace,
	}
	var out bytes.Buffer
	err := cli.Topics(
		t.Context(),
		args,
		func(k string) (string, bool) { v, ok := env[k]; return v, ok },
		&out,
		&out,
	)
	return out.String(), err
}

func TestTopicsOfAClusterAreShown(t *testing.T) {
	t.Parallel()
	p := testenv.Pulsar(t)
	b, err := pulsarbus.New(pulsarbus.Options{Log: zerolog.Nop(), Config: pulsarbus.Config{
		URL: p.URL, AdminURL: p.AdminURL, Tenant: p.Tenant, Namespace: p.Namespace,
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.NoError(t, b.Setup(t.Context(), bus.Topics(2)))
	letter, err := proto.Marshal(&carillonv1.DeadTask{
		App:        "shop",
		Reason:     "attempts",
		Attempts:   3,
		StatusCode: 500,
		LastError:  "\x1b[2Jno",
		Task:       &carillonv1.Task{TimerId: 7, DueMs: 1000},
	})
	require.NoError(t, err)
	require.NoError(
		t,
		b.Publish(
			t.Context(),
			bus.TasksDead,
			bus.Message{Payload: letter},
			bus.Message{Payload: []byte{0xff}},
		),
	)

	require.NoError(t, b.Publish(t.Context(), bus.Slices, bus.Message{Payload: []byte{0xff}}))

	out, err := topics(t, p, "list")
	require.NoError(t, err)
	require.Regexp(t, `tasks-high +carillon.v1.Task +PROTOBUF_NATIVE +2 `, out)
	require.Regexp(t, `slices .*triggers=[1-9]`, out)

	out, err = topics(t, p, "backlog", "slices")
	require.NoError(t, err)
	require.Regexp(t, `slices +triggers +[1-9]`, out)
	out, err = topics(t, p, "subscriptions")
	require.NoError(t, err)
	require.Regexp(t, `slices +triggers`, out)

	out, err = topics(t, p, "peek", "tasks-dead", "-n", "5")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2)
	var l struct {
		Message struct {
			App  string
			Task struct {
				TimerID string `json:"timer_id"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &l))
	require.Equal(t, "shop", l.Message.App)
	require.Equal(t, "7", l.Message.Task.TimerID)
	require.Contains(t, lines[1], "not a carillon.v1.DeadTask")
	out, err = topics(t, p, "peek", "-latest", "-n=1", "tasks-dead")
	require.NoError(t, err)
	require.Contains(t, out, `"raw"`)

	_, err = topics(t, p, "peek", "slices", "-subscription", "trigger")
	require.ErrorContains(t, err, `topic slices has no "trigger" (there are ["triggers"])`)
	out, err = topics(t, p, "subscriptions", "slices")
	require.NoError(t, err)
	require.NotRegexp(t, `slices +trigger `, out)
	_, err = topics(t, p, "reset", "slices", "triggers", "-to", "latest")
	require.ErrorContains(t, err, "add -yes")
	out, err = topics(t, p, "peek", "slices")
	require.NoError(t, err)
	require.Contains(t, out, `"raw"`, "without -yes nothing happens")
	_, err = topics(t, p, "reset", "slices", "triggers", "-to", "latest", "--yes")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		out, err := topics(t, p, "peek", "slices")
		return err == nil && out == ""
	}, 10*time.Second, 100*time.Millisecond)
	_, err = topics(t, p, "reset", "slices", "triggers", "-to", "-1h", "-yes")
	require.NoError(t, err)
}

func TestTopicsRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		say  string
	}{
		{nil, "carillon topics COMMAND"},
		{[]string{"-n", "5"}, "carillon topics COMMAND"},
		{[]string{"-n", "5", "sing"}, `no command "sing"`},
		{[]string{"sing"}, `no command "sing"`},
		{[]string{"peek"}, "wrong number of arguments"},
		{[]string{"list", "-n", "x"}, `invalid value "x"`},
		{[]string{"list", "-pulsar-admin-url", "ftp://x"}, "pulsar-admin-url's scheme"},
		{[]string{"peek", "nonsense"}, `no such topic: "nonsense"`},
		{[]string{"reset", "slices", "triggers", "-to", "tomorrow"}, "is not earliest, latest"},
		{[]string{"reset", "slices", "triggers", "-to", "15m"}, "is not earliest, latest"},
	} {
		_, err := topics(
			t,
			testenv.PulsarNamespace{AdminURL: "http://127.0.0.1:1", Tenant: "t", Namespace: "n"},
			c.args...)
		var p *config.Problems
		require.ErrorAs(t, err, &p, "%v", c.args)
		require.ErrorContains(t, err, c.say)
	}
}

// TestTopicsOverTLS shows topics through ports that demand a certificate.
func TestTopicsOverTLS(t *testing.T) {
	t.Parallel()
	p, files := testenv.PulsarTLS(t)
	client, err := certfile.LoadClient("pulsar-tls", files.Files, zerolog.Nop())
	require.NoError(t, err)
	b, err := pulsarbus.New(pulsarbus.Options{Log: zerolog.Nop(), Config: pulsarbus.Config{
		URL: p.URL, AdminURL: p.AdminURL, Tenant: p.Tenant, Namespace: p.Namespace, TLS: client,
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.NoError(t, b.Setup(t.Context(), bus.Topics(2)))
	_, err = topics(t, p, "list")
	require.Error(t, err, "the system does not know the authority")
	out, err := topics(t, p, "list", "-pulsar-url", p.URL, "-pulsar-tls-ca", files.CA,
		"-pulsar-tls-cert", files.Cert, "-pulsar-tls-key", files.Key)
	require.NoError(t, err, out)
	require.Contains(t, out, "tasks-normal")
}

// TestTopicsHelp checks that the usage names the commands and the settings, without a server.
func TestTopicsHelp(t *testing.T) {
	t.Parallel()
	out, err := topics(t, testenv.PulsarNamespace{}, "--help")
	require.ErrorIs(t, err, config.ErrDone)
	for _, text := range []string{"carillon topics COMMAND", "peek TOPIC", "-pulsar-oauth2-issuer"} {
		require.Contains(t, out, text)
	}
}
