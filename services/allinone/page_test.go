package allinone_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestPageOfDev checks that a browser finds the page at the address that the process prints, and
// that a setting switches it off.
func TestPageOfDev(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	code, body := devtest.Get(t, d.Api+"/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "<title>")
	code, _ = d.Do(t, http.MethodPost, "/", "", "{}")
	require.Equal(t, http.StatusNotFound, code)

	off := devtest.Start(t, t.TempDir(), "CARILLON_PAGE", "false")
	defer off.Stop(t)
	for _, path := range []string{"/", "/ui/"} {
		code, _ = devtest.Get(t, off.Api+path)
		require.Equal(t, http.StatusNotFound, code, path)
	}
}
