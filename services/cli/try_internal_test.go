package cli

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBracketed(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"http://fd00::1:8090/":               "http://[fd00::1]:8090/",
		"http://2001:db8:1:2:3:4:5:6:8090/a": "http://[2001:db8:1:2:3:4:5:6]:8090/a",
		"http://fd00::1:8090":                "http://[fd00::1]:8090",
		"http://[fd00::1]:8090/":             "http://[fd00::1]:8090/",
		"http://10.0.0.1:8090/":              "http://10.0.0.1:8090/",
		"http://this-host:8090/a:1":          "http://this-host:8090/a:1",
		"http://this-host/":                  "http://this-host/",
	} {
		require.Equal(t, want, bracketed(given))
		u, err := url.Parse(want)
		require.NoError(t, err)
		require.NotEmpty(t, u.Hostname())
	}
	require.Equal(t, "nowhere", bracketed("nowhere"))
	require.Equal(t, "fd00::1:80", bracketed("fd00::1:80"))
}

func TestTryTakesAnIPv6AddressWithoutBrackets(t *testing.T) {
	t.Parallel()
	require.NoError(t, (&tryCommand{url: "http://fd00::1:8090/"}).Validate())
	require.Error(t, (&tryCommand{url: "http://fd00::x:8090/"}).Validate())
}
