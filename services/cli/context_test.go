package cli_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKeysStayAtTheirAddress checks that the key of a context goes to no other address, and that a
// context which is named by its flag wins over variables.
func TestKeysStayAtTheirAddress(t *testing.T) {
	t.Parallel()
	serve := func() (address string, seen *[]string) {
		seen = new([]string)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*seen = append(*seen, r.Header.Get("Authorization")+" "+r.URL.Path)
			_, _ = w.Write([]byte(`{"app":"x"}`))
		}))
		t.Cleanup(s.Close)
		return s.URL, seen
	}
	dev, atDev := serve()
	prod, atProd := serve()
	u := newUser(t, "")
	u.env = map[string]string{"CARILLON_CONTEXTS_FILE": u.env["CARILLON_CONTEXTS_FILE"]}
	key := u.file("key", "of-dev")
	u.do("context", "set", "dev", "--api", dev, "--app", "shop", "--key-file", key)
	u.do("context", "use", "dev")
	u.do("app", "get", "--api", dev+"/")
	require.Equal(t, []string{"Bearer of-dev /api/v2/apps/shop"}, *atDev)
	u.do("app", "get", "--api", prod)
	require.Equal(t, []string{" /api/v2/apps/shop"}, *atProd)
	u.do("app", "get", "--api", dev+"/api/v2")
	require.Equal(t, (*atDev)[0], (*atDev)[1], "the same address")
	closed := answer(t, http.StatusUnauthorized, "application/json", `{"detail":"no key"}`)
	require.Contains(t, u.refused("app", "get", "--api", closed.URL),
		"the key file of the context is for "+dev+" only")
	*atDev, *atProd = (*atDev)[:1], (*atProd)[:1]

	u.env["CARILLON_API"], u.env["CARILLON_APP"], u.env["CARILLON_API_KEY"] = prod, "bank", "of-prod"
	u.do("app", "get")
	require.Equal(t, "Bearer of-prod /api/v2/apps/bank", (*atProd)[1])
	u.do("app", "get", "--context", "dev")
	require.Len(t, *atProd, 2)
	require.Equal(t, "Bearer of-dev /api/v2/apps/shop", (*atDev)[1])

	u.do("context", "set", "dev", "--ca-file", u.file("ca", ""))
	require.Contains(t, u.refused("app", "get", "--context", "dev"), "ca-file of the context")
	u.do("app", "get")
}
