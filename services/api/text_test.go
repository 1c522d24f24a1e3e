package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A text that is no text would reach its receiver as another one.
func TestTextsOfHalfCharactersAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	v1 := `{"app":"shop","name":"one","cron":"0 0 9 * * *","notifyHTTPParam":{"url":"https://example.com/","body":"TEXT"}}`
	v2 := withTarget(`"target":{"url":"https://example.com/","body":"TEXT"}`, "")
	for text, good := range map[string]bool{
		"\xff": false, "a\xc3": false, `\ud83d`: false, `\ud83dx`: false, `\ude00`: false, `\ud83d\u0041`: false, `\\\ud83d`: false, `\uD83D\uD83D`: false,
		`\\ud83d`: true, `\ud83d\ude00`: true, `ä\n\u00e4\\`: true,
	} {
		a := f.call(t, http.MethodPost, "/api/v2/timers", strings.Replace(v2, "TEXT", text, 1), nil)
		b := f.call(t, http.MethodPost, "/api/timer/v1/def", strings.Replace(v1, "TEXT", text, 1), nil)
		if good {
			require.NotContains(t, []int{400, 422}, a.status, "%q: %s", text, a.body)
			require.NotContains(t, []int{400, 422}, b.status, "%q: %s", text, b.body)
			continue
		}
		require.Equal(t, 400, a.status, "%q: %s", text, a.body)
		require.Equal(t, 400, b.status, "%q: %s", text, b.body)
		require.True(t, strings.Contains(a.body, "UTF-8") || strings.Contains(a.body, "surrogate"), a.body)
	}
}
