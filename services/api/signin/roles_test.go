package signin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/services/api/signin"
)

func TestRules(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]signin.Rule{
		"dev=editor@shop":            {Group: "dev", App: "shop", Scope: apikey.Write},
		"root=admin@*":               {Group: "root", App: "*", Scope: apikey.Admin},
		"cn=ops@corp=operator@shop":  {Group: "cn=ops@corp", App: "shop", Scope: apikey.Operate},
		"/realm/team one=viewer@a.b": {Group: "/realm/team one", App: "a.b", Scope: apikey.Read},
	} {
		got, err := signin.ParseRule(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{
		"", "dev", "dev=editor", "dev@shop", "=editor@shop", "dev=write@shop", "dev=editor@", "=@",
	} {
		_, err := signin.ParseRule(bad)
		require.Error(t, err, bad)
	}
}

func TestPersonHasTheGreatestOfRoles(t *testing.T) {
	t.Parallel()
	o := signin.Options{Issuer: "https://id.example.com", Now: time.Now}
	for _, text := range []string{
		"a=viewer@shop", "b=admin@shop", "c=editor@shop", "c=viewer@*", "d=operator@*",
	} {
		r, err := signin.ParseRule(text)
		require.NoError(t, err)
		o.Rules = append(o.Rules, r)
	}
	p, err := signin.New(o)
	require.NoError(t, err)
	for _, c := range []struct {
		groups    []string
		all, shop apikey.Scope
	}{
		{nil, "", ""},
		{[]string{"z"}, "", ""},
		{[]string{"a", "b", "c"}, apikey.Read, apikey.Admin},
		{[]string{"d", "c"}, apikey.Operate, apikey.Write},
		{[]string{"c", "d"}, apikey.Operate, apikey.Write},
	} {
		person := p.Person(&signin.Identity{Subject: "u", Groups: c.groups})
		require.Equal(t, c.all, person.All, c.groups)
		require.Equal(t, c.shop, person.Apps["shop"], c.groups)
	}
}
