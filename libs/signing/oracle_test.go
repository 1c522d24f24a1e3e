package signing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// python returns the Python that scripts/webhooks-oracle.sh installed.
func python(t *testing.T) string {
	t.Helper()
	return testenv.Oracle(t, "CARILLON_TEST_WEBHOOKS", "scripts/webhooks-oracle.sh",
		"verifies signatures by others' code")
}

// message is a line of oracle/verify.py.
type message struct {
	Key       string `json:"key"`
	ID        string `json:"id"`
	Timestamp string `json:"timestamp"`
	Signature string `json:"signature"`
	Body      []byte `json:"body"`
}

func TestOthersVerify(t *testing.T) {
	t.Parallel()
	program := python(t)
	var in, out, log bytes.Buffer
	var wanted []bool
	enc := json.NewEncoder(&in)
	ask := func(m message, good bool) {
		require.NoError(t, enc.Encode(m))
		wanted = append(wanted, good)
	}
	for i, body := range []string{"", "{}", "plain", "ß\x00", strings.Repeat("long ", 20_000)} {
		secret, other, ed := newKey(
			t,
			signing.HMAC,
		), newKey(
			t,
			signing.HMAC,
		), newKey(
			t,
			signing.Ed25519,
		)
		for _, keys := range [][]signing.Key{{secret}, {other, secret}, {ed}, {ed, secret}, {secret, ed}} {
			id := "42-" + strings.Repeat("7", i+1)
			timestamp, signature := signer(t, keys...).Sign(id, time.Now(), body)
			for _, k := range []signing.Key{secret, ed} {
				m := message{
					Key:       k.Reveal(),
					ID:        id,
					Timestamp: timestamp,
					Signature: signature,
					Body:      []byte(body),
				}
				if k.Kind() == signing.Ed25519 {
					m.Key = k.Public()
				}
				ask(m, slices.ContainsFunc(keys, func(x signing.Key) bool { return x == k }))
				m.Body = append(m.Body, 'x')
				ask(m, false)
				m.Body, m.ID = []byte(body), "another"
				ask(m, false)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "oracle/verify.py")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &log
	require.NoError(t, cmd.Run(), log.String())
	answers := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, answers, len(wanted))
	for i, a := range answers {
		require.Equal(t, wanted[i], a == "ok", "message %d: %s", i, a)
	}
}
