package callback_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestSecretsInOtherForms checks that secrets are redacted in every form that an answer may have.
func TestSecretsInOtherForms(t *testing.T) {
	t.Parallel()
	const secret = `hunter2/"pä+ß&x 100%/😀 <y>`
	h := newCaller(
		t,
		callback.HTTPOptions{AllowPrivate: true, NetOptions: callback.NetOptions{Secrets: plain{}}},
	)
	var hex, everyByte strings.Builder
	for _, r := range secret {
		if r < 0x10000 {
			fmt.Fprintf(&hex, `\u%04x`, r)
		} else {
			hex.WriteRune(r)
		}
	}
	for i := range len(secret) {
		fmt.Fprintf(&everyByte, "%%%02x", secret[i])
	}
	quoted, err := json.Marshal(secret)
	require.NoError(t, err)
	inJSON := strings.Trim(string(quoted), `"`)
	ascii := strings.NewReplacer("ä", `\u00e4`, "ß", `\u00DF`, "😀", `\ud83d\ude00`, "/", `\/`, `"`, `\"`).
		Replace(secret)
	forms := map[string]string{
		"as it is":                  secret,
		"JSON":                      inJSON,
		"JSON with slashes escaped": strings.ReplaceAll(inJSON, "/", `\/`),
		"JSON in ASCII":             ascii,
		"JSON, all escaped":         hex.String(),
		"a path":                    url.PathEscape(secret),
		"a query":                   url.QueryEscape(secret),
		"all percent":               everyByte.String(),
		"HTML":                      html.EscapeString(secret),
		"base64":                    base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 for URLs":           base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(
				t,
				`you: "REDACTED"`,
				strings.ReplaceAll(echoed(t, h, secret, `you: "`+form+`"`), "=", ""),
			)
			for n := len(form) / 2; n < len(form); n++ {
				start := strings.Repeat("-", timer.MaxExcerpt-n)
				rest, ok := strings.CutPrefix(echoed(t, h, secret, start+form), start)
				require.True(t, ok)
				require.Contains(
					t,
					" REDACTED",
					" "+strings.TrimRight(rest, "="),
					"cut off at %d: %s",
					n,
					rest,
				)
			}
		})
	}
	for before := range 3 {
		got := echoed(
			t,
			h,
			secret,
			base64.StdEncoding.EncodeToString([]byte("abc"[:before]+secret+"tail")),
		)
		require.Contains(t, got, "REDACTED")
		require.Less(t, len(got), 20)
	}
	for name, text := range map[string]string{
		"no secret":    `{"a":"\\d%41&amp;+\u0041\q%zz&nothing;"}`,
		"broken off":   `what ends in \u00`,
		"a percent":    `100%`,
		"an ampersand": `Q & A`,
		"a surrogate":  `\ud83d`,
		"two of them":  `\ud83d\u0041`,
	} {
		require.Equal(t, text, echoed(t, h, secret, text), name)
	}
}

// plain returns secrets that are not encrypted.
type plain struct{}

func (plain) Open(s timer.Sealed, _ encryption.Binding) (encryption.Secret, error) {
	return encryption.NewSecret(string(s)), nil
}

func TestBasicCredentialsAreSecretOnceTheyAreDecoded(t *testing.T) {
	t.Parallel()
	h := newCaller(
		t,
		callback.HTTPOptions{AllowPrivate: true, NetOptions: callback.NetOptions{Secrets: plain{}}},
	)
	secret := "Basic " + base64.StdEncoding.EncodeToString([]byte("somebody:hunter2!"))
	require.Equal(t, "no somebody with REDACTED", echoed(t, h, secret, "no somebody with hunter2!"))
	require.Equal(t, "no REDACTED", echoed(t, h, secret, "no somebody:hunter2!"))
}

// echoed calls a receiver that answers with a text, and returns its excerpt.
func echoed(t *testing.T, h *callback.HTTP, secret, text string) string {
	t.Helper()
	server := httptest.NewServer(
		http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) },
		),
	)
	defer server.Close()
	r := requestTo(server.URL)
	r.Target.SecretHeaders = map[string]timer.Sealed{"X-Secret": timer.Sealed(secret)}
	return h.Call(t.Context(), r).Excerpt
}

func TestTheCompletionTokenIsNotShown(t *testing.T) {
	t.Parallel()
	tokens, err := callback.NewCompletionTokens([]byte(strings.Repeat("k", 32)))
	require.NoError(t, err)
	h := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get(callback.HeaderToken)
		w.Header().Set(callback.HeaderAccepted, "async")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "%s and %s", token, base64.StdEncoding.EncodeToString([]byte(token)))
	}))
	t.Cleanup(server.Close)
	r := requestTo(server.URL)
	r.Target.Async, r.Token = timer.Duration(time.Minute), tokens.Token(r.Fire, r.Attempt)
	got := h.Call(t.Context(), r)
	require.Equal(t, callback.Accepted, got.Class)
	require.Equal(t, "REDACTED and REDACTED", strings.TrimRight(got.Excerpt, "="))
}
