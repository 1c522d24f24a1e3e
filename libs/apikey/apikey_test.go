package apikey_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		k := apikey.New()
		require.Regexp(t, `^crl_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$`, k.Reveal())
		require.False(t, seen[k.ID()])
		seen[k.ID()] = true
		again, err := apikey.Parse(k.Reveal())
		require.NoError(t, err)
		require.Equal(t, k.ID(), again.ID())
		require.Len(t, k.ID(), apikey.IDLen)
		require.True(t, again.Matches(k.Hash()))
		require.False(t, apikey.New().Matches(k.Hash()))
	}
	require.False(t, apikey.Key{}.Matches(apikey.Hash{}))
	require.False(t, apikey.Key{}.Matches(apikey.Key{}.Hash()), "no key matches nothing")
	require.Empty(t, apikey.Key{}.ID()+apikey.Key{}.Reveal()+apikey.Key{}.String())
}

func TestTypingErrorsAreSeen(t *testing.T) {
	t.Parallel()
	text := apikey.New().Reveal()
	for i := range text {
		c := byte('A')
		if text[i] == c {
			c = 'B'
		}
		_, err := apikey.Parse(text[:i] + string(c) + text[i+1:])
		require.ErrorIs(t, err, apikey.ErrMalformed, i)
	}
	for _, bad := range []string{"", "crl_", text + "x", text[1:], " " + text, strings.ToUpper(text), strings.Repeat("x", len(text))} {
		_, err := apikey.Parse(bad)
		require.ErrorIs(t, err, apikey.ErrMalformed)
		require.NotContains(t, err.Error(), text[20:30])
	}
}

func TestAKeyNeverShowsItsSecret(t *testing.T) {
	t.Parallel()
	k := apikey.New()
	holder := struct {
		Key    apikey.Key
		hidden apikey.Key
	}{k, k}
	var log strings.Builder
	logger := zerolog.New(&log)
	logger.Info().Interface("a", holder).Any("b", k).Stringer("c", k).Msg("x")
	b, err := json.Marshal(holder)
	require.NoError(t, err)
	shown := log.String() + string(b)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t", "%T", "%p"} {
		shown += fmt.Sprintf(verb+verb+verb+verb, k, &k, holder, &holder)
	}
	secret := k.Reveal()[len(apikey.Prefix)+apikey.IDLen+1:]
	require.NotContains(t, shown, secret[:10])
	require.NotContains(t, shown, fmt.Sprintf("%x", secret[:10]))
	require.Contains(t, shown, "crl_"+k.ID()+"_REDACTED")
	require.Equal(t, k.Reveal(), holder.hidden.Reveal())
}

func TestScopes(t *testing.T) {
	t.Parallel()
	order := []apikey.Scope{apikey.Read, apikey.Operate, apikey.Write, apikey.Admin}
	for i, have := range order {
		got, err := apikey.ParseScope(string(have))
		require.NoError(t, err)
		require.Equal(t, have, got)
		for j, needed := range order {
			require.Equal(t, i >= j, have.Includes(needed), "%s %s", have, needed)
		}
		require.False(t, have.Includes("root"))
		require.False(t, apikey.Scope("root").Includes(have))
	}
	require.False(t, apikey.Scope("").Includes(""))
	_, err := apikey.ParseScope("root")
	require.ErrorContains(t, err, "read, operate, write or admin")
}

func FuzzParse(f *testing.F) {
	f.Add(apikey.New().Reveal())
	f.Add("crl_")
	f.Fuzz(func(t *testing.T, s string) {
		if k, err := apikey.Parse(s); err == nil && k.Reveal() != s {
			t.Fatalf("%q became another", s)
		}
	})
}
