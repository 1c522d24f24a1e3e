package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

func TestRedriveCommand(t *testing.T) {
	t.Parallel()
	admin := apikey.New().Reveal()
	d := devtest.Start(
		t,
		t.TempDir(),
		"CARILLON_AUTH",
		"on",
		"CARILLON_ADMIN_KEY",
		admin,
		"CARILLON_CALLBACK_ALLOW",
		"127.0.0.1:*",
	)
	defer d.Stop(t)
	code, body := d.Do(
		t,
		http.MethodPost,
		"/api/v2/timers",
		admin,
		`{"app":"shop","name":"bill","status":"active","schedule":{"kind":"delay","delay":"10ms"},`+
			`"target":{"url":"http://127.0.0.1:1/"},"retry":{"attempts":1}}`,
	)
	require.Equal(t, http.StatusCreated, code, body)
	redrive := func(args ...string) (string, error) {
		var out bytes.Buffer
		env := func(k string) (string, bool) { return admin, k == "CARILLON_API_KEY" }
		err := cli.Topics(
			t.Context(),
			append([]string{"redrive", "-api", d.Api, "-app", "shop"}, args...),
			env,
			&out,
			io.Discard,
		)
		return out.String(), err
	}
	require.Eventually(t, func() bool {
		said, err := redrive()
		require.NoError(t, err)
		return strings.Contains(said, "1 would be redriven")
	}, 20*time.Second, 200*time.Millisecond)
	said, err := redrive("-yes")
	require.NoError(t, err)
	require.Contains(t, said, "exhausted")
	require.Contains(t, said, "1 redriven")
	_, err = redrive("-fires", "", "-yes")
	require.ErrorContains(t, err, "fires: lists none")
	_, err = redrive("-failure", "tired")
	require.ErrorContains(t, err, "422")
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(apikey.New().Reveal()+"\n"), 0o600))
	_, err = redrive("-key-file", file)
	require.ErrorContains(t, err, "does not know this key")
}

// TestRedriveAgainSaysWhatIsLeft checks that redrive reports what remains, also by its exit code.
func TestRedriveAgainSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		more bool
		args []string
		left bool
	}{
		{true, []string{"-again"}, true},
		{false, []string{"-again"}, false},
		{true, []string{"-again", "-limit", "10000"}, false},
	} {
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			fmt.Fprintf(w, `{"dry_run":false,"count":10000,"more":%v,"sample":[]}`, c.more)
		}))
		var out bytes.Buffer
		err := cli.Topics(
			t.Context(),
			append([]string{"redrive", "-api", server.URL, "-app", "shop", "-yes"}, c.args...),
			devtest.NoEnv,
			&out,
			io.Discard,
		)
		server.Close()
		require.Equal(t, 1, calls)
		require.Contains(t, out.String(), "10000 redriven")
		if c.left {
			require.ErrorContains(t, err, "there are more")
		} else {
			require.NoError(t, err)
		}
	}
}
