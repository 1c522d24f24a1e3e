package logging_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/logging"
)

func TestJSONLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, err := logging.New(&out, "info", "auto", "api")
		require.NoError(t, err)
		log.Debug().Msg("not shown")
		time.Sleep(1500 * time.Millisecond)
		log.Info().Str(logging.Addr, "127.0.0.1:1").Msg(logging.HTTPListening)

		var line map[string]string
		require.NoError(t, json.Unmarshal(out.Bytes(), &line))
		require.Equal(t, map[string]string{
			"level":   "info",
			"service": "api",
			"addr":    "127.0.0.1:1",
			"time":    "2000-01-01T00:00:01.500Z",
			"message": "http listening",
		}, line)
	})
}

func TestPretty(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := logging.New(&out, "info", "pretty", "api")
	require.NoError(t, err)
	log.Warn().Msg("hello")
	require.Regexp(t, `^\d\d:\d\d:\d\d\.\d\d\d WRN hello service=api\n$`, out.String())
}

func TestBadLevel(t *testing.T) {
	t.Parallel()
	_, err := logging.New(&bytes.Buffer{}, "loud", "json", "api")
	require.ErrorContains(t, err, "loud")
}
