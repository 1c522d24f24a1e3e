package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPreviewsWithHAreExamples checks that instants which depend on a timer's id are not shown as
// those of every timer.
func TestPreviewsWithHAreExamples(t *testing.T) {
	t.Parallel()
	u := newUser(t, "http://127.0.0.1:1") // it is not called
	for spec, example := range map[string]bool{
		"H 9 * * *": true, "0 H(8-17) * * *": true, "H/15 * * * *": true, "1,H * * * *": true,
		"@hourly": false, "0 9 * MAR THU": false, "@every 1h": false,
	} {
		out, errOut, err := u.split("preview", spec, "-n", "2")
		require.NoError(t, err, spec)
		require.NotContains(t, out, "example")
		if example {
			require.Contains(t, errOut, "these instants are an example", spec)
			require.Contains(t, errOut, "carillon explain NAME --from 0s --to 72h", spec)
		} else {
			require.Empty(t, errOut, spec)
		}
	}
	_, errOut, err := u.split("preview", "H 9 * * *", "-o", "json")
	require.NoError(t, err)
	require.Empty(t, errOut)
}
