package callback_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestCheckTarget(t *testing.T) {
	t.Parallel()
	url := func(s string) timer.Target { return timer.Target{Kind: timer.KindHTTP, URL: s, Method: "POST"} }
	headers := func(h map[string][]string) timer.Target {
		return timer.Target{Kind: timer.KindHTTP, URL: "http://example.com", Headers: h}
	}
	many := map[string][]string{}
	for i := range timer.MaxHeaders + 1 {
		many[fmt.Sprint("X-", i)] = []string{"v"}
	}
	tests := []struct {
		name       string
		target     timer.Target
		field, msg string // empty: valid
	}{
		{"plain", url("https://example.com/hook?a=b"), "", ""},
		{"port, address and password", url("http://me:secret@[2001:db8::1]:8080/"), "", ""},
		{"a name in its own letters", url("http://bücher.example/"), "", ""},
		{"no method", headers(nil), "", ""},
		{
			"headers",
			headers(
				map[string][]string{
					"X-A":           {"1", ""},
					"host":          {"example.org:80"},
					"authorization": {"Bearer ä"},
				},
			),
			"",
			"",
		},
		{"no kind", timer.Target{URL: "http://example.com"}, "target.kind", "expected \"http\""},
		{
			"an unknown kind",
			timer.Target{Kind: "smtp", URL: "http://example.com"},
			"target.kind",
			"expected \"http\"",
		},
		{"no url", url(""), "target.url", "expected a URL such as \"https://example.com/hook\""},
		{"no scheme", url("example.com/hook"), "target.url", "http://"},
		{"another scheme", url("ftp://example.com/"), "target.url", "http://"},
		{"no host", url("http://:80/"), "target.url", "without host"},
		{"a bad port", url("http://example.com:99999/"), "target.url", "65535"},
		{"port 0", url("http://example.com:0/"), "target.url", "65535"},
		{"a bad escape", url("http://example.com/%zz"), "target.url", "not a URL"},
		{"a line break", url("http://example.com/\n"), "target.url", "not a URL"},
		{"no UTF-8 in the url", url("http://example.com/\xff"), "target.url", "UTF-8"},
		{
			"too long a url",
			url("http://example.com/" + strings.Repeat("x", timer.MaxURLLen)),
			"target.url",
			"at most 2048",
		},
		{
			"an unknown method",
			timer.Target{Kind: timer.KindHTTP, URL: "http://a", Method: "get"},
			"target.method",
			"GET, POST",
		},
		{
			"too large a body",
			timer.Target{
				Kind: timer.KindHTTP,
				URL:  "http://a",
				Body: strings.Repeat("x", timer.MaxBodyLen+1),
			},
			"target.body",
			"at most",
		},
		{
			"no UTF-8 in the body",
			timer.Target{Kind: timer.KindHTTP, URL: "http://a", Body: "\xff"},
			"target.body",
			"UTF-8",
		},
		{"too many headers", headers(many), "target.headers", "at most 64"},
		{
			"too long headers",
			headers(map[string][]string{"X": {strings.Repeat("x", timer.MaxHeaderLen)}}),
			"target.headers",
			"at most 8192",
		},
		{
			"an empty name",
			headers(map[string][]string{"": {"v"}}),
			"target.headers.",
			"expected a header name of letters, digits and !#$%&'*+-.^_`|~, found others",
		},
		{
			"a bad name",
			headers(map[string][]string{"X Y": {"v"}}),
			"target.headers.X Y",
			"expected a header name of letters, digits and !#$%&'*+-.^_`|~, found others",
		},
		{
			"a bad value",
			headers(map[string][]string{"X": {"a\r\nY: b"}}),
			"target.headers.X",
			"control character",
		},
		{
			"ours",
			headers(map[string][]string{"carillon-due": {"v"}}),
			"target.headers.carillon-due",
			"expected a header that Carillon does not set itself",
		},
		{
			"the idempotency key",
			headers(map[string][]string{"idempotency-key": {"v"}}),
			"target.headers.idempotency-key",
			"expected a header that Carillon does not set itself",
		},
		{
			"hop by hop",
			headers(map[string][]string{"transfer-encoding": {"chunked"}}),
			"target.headers.transfer-encoding",
			"connection",
		},
		{
			"the length",
			headers(map[string][]string{"Content-Length": {"3"}}),
			"target.headers.Content-Length",
			"connection",
		},
		{
			"two hosts",
			headers(map[string][]string{"Host": {"a", "b"}}),
			"target.headers.Host",
			"exactly one",
		},
		{
			"a bad host",
			headers(map[string][]string{"Host": {"a/b"}}),
			"target.headers.Host",
			"host name",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := callback.CheckTarget(&tt.target)
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			var e *timer.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, timer.CodeInvalid, e.Code)
			require.Equal(t, tt.field, e.Field)
			require.Contains(t, e.Msg, tt.msg)
			require.NotContains(t, e.Error(), "secret")
		})
	}
	twice := headers(map[string][]string{"X-A": {"1"}, "x-a": {"2"}})
	require.ErrorContains(t, callback.CheckTarget(&twice), "twice")
	secret := url("http://me:secret@example.com:x/")
	require.NotContains(t, callback.CheckTarget(&secret).Error(), "secret")
}

func FuzzCheckTarget(f *testing.F) {
	f.Add("http://example.com:80/a?b#c", "X-A", "v", "body")
	f.Add("http://[::1%25lo]/", "Host", "example.org", "")
	f.Fuzz(func(t *testing.T, url, name, value, body string) {
		h, err := callback.NewHTTP(callback.HTTPOptions{})
		require.NoError(t, err)
		target := timer.Target{
			Kind:    timer.KindHTTP,
			URL:     url,
			Headers: map[string][]string{name: {value}},
			Body:    body,
		}
		err = callback.Build(
			t.Context(),
			h,
			&callback.Request{Target: target, Fire: timer.FireID{Timer: 1}},
		)
		if callback.CheckTarget(&target) == nil {
			require.NoError(t, err, "a target that passed the check can be called")
		}
	})
}
