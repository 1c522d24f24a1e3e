package allinone_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/allinone"
)

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
		err := allinone.Topics(
			t.Context(),
			append([]string{"redrive", "-api", server.URL, "-app", "shop", "-yes"}, c.args...),
			noEnv,
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
