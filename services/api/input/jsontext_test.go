package input_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestTextsOfHalfCharactersAreRefused covers text that would reach its receiver changed.
func TestTextsOfHalfCharactersAreRefused(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	v1 := `{"app":"shop","name":"one","cron":"0 0 9 * * *","notifyHTTPParam":{"url":"https://example.com/","body":"TEXT"}}`
	v2 := apitest.WithTarget(`"target":{"url":"https://example.com/","body":"TEXT"}`, "")
	for text, good := range map[string]bool{
		"\xff": false, "a\xc3": false, `\ud83d`: false, `\ud83dx`: false, `\ude00`: false, `\ud83d\u0041`: false, `\\\ud83d`: false, `\uD83D\uD83D`: false,
		`\\ud83d`: true, `\ud83d\ude00`: true, `ä\n\u00e4\\`: true,
	} {
		a := f.Call(t, http.MethodPost, "/api/v2/timers", strings.Replace(v2, "TEXT", text, 1), nil)
		b := f.Call(
			t,
			http.MethodPost,
			"/api/timer/v1/def",
			strings.Replace(v1, "TEXT", text, 1),
			nil,
		)
		if good {
			require.NotContains(t, []int{400, 422}, a.Status, "%q: %s", text, a.Body)
			require.NotContains(t, []int{400, 422}, b.Status, "%q: %s", text, b.Body)
			continue
		}
		require.Equal(t, 400, a.Status, "%q: %s", text, a.Body)
		require.Equal(t, 400, b.Status, "%q: %s", text, b.Body)
		require.True(
			t,
			strings.Contains(a.Body, "UTF-8") || strings.Contains(a.Body, "surrogate"),
			a.Body,
		)
	}
}

func TestV2BodyOfBytes(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	bodyOf := func(name, fields string) string {
		return strings.Replace(
			apitest.WithTarget(`"target":{"url":"https://example.com/",`+fields+`}`, ""),
			"bill",
			name,
			1,
		)
	}
	var made apitest.V2Timer
	body := bodyOf("bytes", `"body_base64":"/wB7e2R1ZX19ww==","templates":true`)
	f.Call(t, http.MethodPost, "/api/v2/timers", body, nil).Into(t, 201, &made)
	require.Equal(t, "/wB7e2R1ZX19ww==", made.Target["body_base64"])
	require.NotContains(t, made.Target, "body")
	id, err := timer.ParseID(made.ID)
	require.NoError(t, err)
	stored, err := f.Store.Timer(t.Context(), "shop", id)
	require.NoError(t, err)
	require.Equal(t, "\xff\x00{{due}}\xc3", string(stored.Definition.Target.Bytes))
	require.Equal(
		t,
		200,
		f.Call(t, http.MethodPost, "/api/v2/timers", body, nil).Status,
		"the same again is the same",
	)
	other := strings.Replace(body, "ww==", "wg==", 1)
	require.Equal(
		t,
		409,
		f.Call(t, http.MethodPost, "/api/v2/timers", other, nil).Status,
		"other bytes are another definition",
	)

	made = apitest.V2Timer{}
	f.Call(t, http.MethodPost, "/api/v2/timers", bodyOf("text", `"body_base64":"eA=="`), nil).
		Into(t, 201, &made)
	require.Equal(t, "x", made.Target["body"])
	require.NotContains(t, made.Target, "body_base64")
	require.Equal(
		t,
		200,
		f.Call(t, http.MethodPost, "/api/v2/timers", bodyOf("text", `"body":"x"`), nil).Status,
	)
	made = apitest.V2Timer{}
	f.Call(t, http.MethodPost, "/api/v2/timers", bodyOf("braces", `"body_base64":"e3tub3Bl","templates":true`), nil).
		Into(t, 201, &made)
	require.Equal(t, "e3tub3Bl", made.Target["body_base64"], "no variables are put in")
	for _, fields := range []string{`"body_base64":"no base64"`, `"body_base64":"eA==","body":"x"`, `"body_base64":"` + strings.Repeat("AAAA", 90_000) + `"`} {
		p := f.Problem(t, 422, http.MethodPost, "/api/v2/timers", bodyOf("bad", fields))
		require.Len(t, p.Errors, 1)
		require.Equal(t, "body.target.body_base64", p.Errors[0].Location)
	}
}
