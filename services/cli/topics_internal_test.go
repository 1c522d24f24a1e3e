package cli

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/wiring"
)

// TestFlagsWithoutValueLeaveTheNextWord checks that a setting which is true without a value does not
// take the argument after it.
func TestFlagsWithoutValueLeaveTheNextWord(t *testing.T) {
	t.Parallel()
	own := flag.NewFlagSet("test", flag.ContinueOnError)
	own.Int("n", 0, "")
	own.Bool("yes", false, "")
	set := config.NewSet("test", &wiring.Database{})
	words, mine, rest := splitArgs([]string{
		"-mysql-tls", "dir", "--mysql-tls=false", "-print-config", "a", "-data-dir", "d", "-h", "b",
		"-n", "3", "-yes", "c",
	}, own, set)
	require.Equal(t, []string{"dir", "a", "b", "c"}, words)
	require.Equal(t, []string{"-n", "3", "-yes"}, mine)
	require.Equal(
		t,
		[]string{"-mysql-tls", "--mysql-tls=false", "-print-config", "-data-dir", "d", "-h"},
		rest,
	)
}

// TestLastAcknowledgementMayBeUnknown: Pulsar has none for busy partitioned topics, so its absence
// must not be called "never".
func TestLastAcknowledgementMayBeUnknown(t *testing.T) {
	t.Parallel()
	require.Equal(t, "-", lastAck(time.Time{}))
	require.Equal(t, "2026-01-31T12:00:00Z", lastAck(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)))
}

// TestPrintableEscapesOnlyWhatIsNotPrintable checks that answers of receivers stay readable, on one
// line, and cannot control the terminal.
func TestPrintableEscapesOnlyWhatIsNotPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "-",
		`{"Host": "a\b", 'ü': "鐘"}`: `{"Host": "a\b", 'ü': "鐘"}`,
		"\x1b[2Jno\r\nyes\t\u202e":  `\x1b[2Jno\r\nyes\t\u202e`,
		"not \xff UTF-8 \ufffd":     "not \\xff UTF-8 \ufffd",
	} {
		require.Equal(t, want, printable(text))
	}
}
