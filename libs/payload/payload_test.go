package payload_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/timer"
)

func values(t testing.TB) *payload.Values {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	return &payload.Values{
		Fire: timer.FireID{
			Timer:  42,
			DueMS:  1_767_225_600_123,
			Series: 7,
		},
		Attempt: 2,
		App:     "shop",
		Name:    "close the day",
		Labels: map[string]string{
			"team": "till",
			"odd":  "a\"b\\c\n</x>&ä/?#=%\u2028",
			"cr":   "a\r\nX-Evil: 1",
		},
		Zone: zone,
	}
}

func TestEveryVariable(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"fire.id": "42-1767225600123-7", "due": "2026-01-01T01:00:00.123+01:00", "due.utc": "2026-01-01T00:00:00.123Z",
		"due.unix": "1767225600", "due.unix_ms": "1767225600123", "attempt": "2", "cause": "schedule", "timer.id": "42",
		"timer.name": "close the day", "app": "shop", "zone": "Europe/Berlin", "label.team": "till", "open": "{{",
	} {
		v := values(t)
		src := "<{{ " + name + "}}|{{" + name + " }}>"
		require.NoError(t, payload.Check("f", src, payload.Text, v.Labels), name)
		got, err := payload.Expand(src, payload.Text, v)
		require.NoError(t, err)
		require.Equal(t, "<"+want+"|"+want+">", got, name)
	}
	v := &payload.Values{Fire: timer.FireID{Timer: 1, DueMS: 0}, Cause: "run_now"}
	got, err := payload.Expand("{{due}} {{cause}} {{label.gone}} {{zone}}", payload.Text, v)
	require.NoError(t, err)
	require.Equal(t, "1970-01-01T00:00:00.000Z run_now  UTC", got)
}

func TestTextsWithoutVariablesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "plain", "}} {", "{ {x} }", "{\"a\":{\"b\":1}}", "ä\xff\x00"} {
		got, err := payload.Expand(s, payload.JSON, values(t))
		require.NoError(t, err)
		require.Equal(t, s, got)
		require.NoError(t, payload.Check("f", s, payload.JSON, nil))
	}
}

func TestALiteralOpening(t *testing.T) {
	t.Parallel()
	got, err := payload.Expand("{{open}}fire.id}} {{fire.id}}", payload.Text, values(t))
	require.NoError(t, err)
	require.Equal(t, "{{fire.id}} 42-1767225600123-7", got)
	got, err = payload.Expand(`{"a":"{{open}}"}`, payload.JSON, values(t))
	require.NoError(t, err)
	require.JSONEq(t, `{"a":"{{"}`, got)
}

func TestValuesStayInTheirPlace(t *testing.T) {
	t.Parallel()
	v := values(t)
	odd := v.Labels["odd"]
	body, err := payload.Expand(`{"a":"{{label.odd}}","n":{{attempt}}}`, payload.JSON, v)
	require.NoError(t, err)
	var got struct {
		A string
		N int
	}
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Equal(t, odd, got.A)
	require.Equal(t, 2, got.N)

	u, err := payload.Expand("http://a/{{label.odd}}/x?q={{label.odd}}&r=1", payload.URL, v)
	require.NoError(t, err)
	parsed, err := url.Parse(u)
	require.NoError(t, err)
	require.Equal(t, "/"+odd+"/x", parsed.Path)
	require.Equal(t, odd, parsed.Query().Get("q"))
	require.Equal(t, "1", parsed.Query().Get("r"))

	v.Labels["up"], v.Labels["dot"] = "..", "."
	for _, path := range []string{
		"/{{label.up}}/x", "/a/{{label.up}}", "/{{label.dot}}{{label.dot}}?q=1", "/{{label.up}};v=1", "/./{{label.dot}}#f",
	} {
		_, err = payload.Expand("http://a"+path, payload.URL, v)
		require.ErrorContains(t, err, "a step up", path)
	}
	for _, path := range []string{"/../x{{label.up}}", "/{{label.up}}.x", "/?q=/{{label.up}}/"} {
		_, err = payload.Expand("http://a"+path, payload.URL, v)
		require.NoError(t, err, path)
	}

	form, err := payload.Expand("a={{label.odd}}&b=2", payload.Form, v)
	require.NoError(t, err)
	q, err := url.ParseQuery(form)
	require.NoError(t, err)
	require.Equal(t, url.Values{"a": {odd}, "b": {"2"}}, q)

	xml, err := payload.Expand("<x>{{label.odd}}</x>", payload.XML, v)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(xml, "</x>"))

	_, err = payload.Expand("{{label.cr}}", payload.Header, v)
	require.ErrorContains(t, err, "control character")
}

func TestPlaceOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		contentType, body string
		want              payload.Place
	}{
		{"application/json; charset=utf-8", "", payload.JSON},
		{"application/cloudevents+json", "", payload.JSON},
		{"Application/JSON;;", "", payload.JSON},
		{"application/json; charset", "", payload.JSON},
		{"application/json; charset=a; charset=b", "", payload.JSON},
		{" application/json , text/plain", "", payload.JSON},
		{"text/plain, application/json", "", payload.Text},
		{"application/x-www-form-urlencoded", "", payload.Form},
		{"text/xml", "", payload.XML},
		{"text/plain", "{", payload.Text},
		{"", "  {\"a\":1}", payload.JSON},
		{"", "{{fire.id}}", payload.Text},
		{"", "hello", payload.Text},
		{"", "", payload.Text},
	} {
		require.Equal(
			t,
			tt.want,
			payload.PlaceOf(tt.contentType, tt.body),
			"%q %q",
			tt.contentType,
			tt.body,
		)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"team": "till", "cr": "a\r\nb"}
	tests := []struct {
		name  string
		src   string
		place payload.Place
		msg   string // empty: valid
	}{
		{"a path", "https://a/{{fire.id}}?x={{label.team}}", payload.URL, ""},
		{"a query right behind the host", "https://a?x={{label.team}}", payload.URL, ""},
		{"a string", `{"a":"x{{label.team}}\"{{due}}","b":{{attempt}}}`, payload.JSON, ""},
		{
			"unknown",
			"ab{{nope}}",
			payload.Text,
			`expected one of the variables app, attempt, cause, due, due.unix,`,
		},
		{
			"empty",
			"{{}}",
			payload.Text,
			`expected one of the variables app, attempt, cause, due, due.unix,`,
		},
		{
			"code",
			"{{ .Fire }}",
			payload.Text,
			"expected one of the variables app, attempt, cause, due, due.unix,",
		},
		{
			"a label without name",
			"{{label.}}",
			payload.Text,
			"expected one of the variables app, attempt, cause, due, due.unix,",
		},
		{"open at the end", "abc{{fire.id", payload.Text, "expected {{variable}}"},
		{
			"the second is wrong",
			"{{fire.id}}-{{x}}",
			payload.Text,
			"expected one of the variables app, attempt, cause, due, due.unix,",
		},
		{"no such label", "{{label.nobody}}", payload.Text, "expected a label that the timer has"},
		{
			"a host",
			"https://{{label.team}}.example/",
			payload.URL,
			"expected scheme, host and port without variables",
		},
		{
			"a scheme",
			"{{label.team}}://a/",
			payload.URL,
			"expected scheme, host and port without variables",
		},
		{
			"a port",
			"https://a:{{attempt}}/",
			payload.URL,
			"expected scheme, host and port without variables",
		},
		{
			"no scheme",
			"{{label.team}}",
			payload.URL,
			"expected scheme, host and port without variables",
		},
		{
			"expected variables of JSON within strings",
			`{"a":{{label.team}}}`,
			payload.JSON,
			"expected variables of JSON within strings",
		},
		{
			"outside behind an escape",
			`{"a\\":"b",{{label.team}}:1}`,
			payload.JSON,
			"expected variables of JSON within strings",
		},
		{"behind a backslash", `{"a":"\{{label.team}}"}`, payload.JSON, "backslash"},
		{"a line break in a header", "{{label.cr}}", payload.Header, "control character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := payload.Check("target.body", tt.src, tt.place, labels)
			if tt.msg == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.msg)
			require.ErrorContains(t, err, ": at ")
			var e *timer.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, timer.CodeInvalid, e.Code)
			require.Equal(t, "target.body", e.Field)
		})
	}
}

func TestWhatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	v := values(t)
	v.Labels = map[string]string{"x": strings.Repeat("x", 100_000)}
	_, err := payload.Expand(strings.Repeat("{{label.x}}", 20_000), payload.Text, v)
	require.ErrorContains(t, err, "longer than")
}

// FuzzExpand checks that every text accepted by Check expands, and that a JSON body stays
// well-formed with any values.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{`{"a":"{{label.x}}"}`, `{{fire.id}}`, `["\\{{label.x}}",{{attempt}}]`, "{{", `"{{label.x}}{{open}}\u00{{attempt}}"`} {
		f.Add(s, `a"b\`)
	}
	f.Fuzz(func(t *testing.T, src, label string) {
		plain := &payload.Values{
			Fire:    timer.FireID{Timer: 1, DueMS: 1},
			Attempt: 1,
			Labels:  map[string]string{"x": "plain"},
		}
		odd := *plain
		odd.Labels = map[string]string{"x": label}
		for _, p := range []payload.Place{payload.URL, payload.Header, payload.JSON, payload.Form, payload.XML, payload.Text} {
			if payload.Check("f", src, p, odd.Labels) != nil {
				continue
			}
			got, err := payload.Expand(src, p, &odd)
			if err != nil {
				if len(src)+len(label) < 10_000 && strings.Count(src, "{{") < 50 {
					t.Fatalf("%q in place %d passed and does not expand: %v", src, p, err)
				}
				continue
			}
			if p != payload.JSON {
				continue
			}
			was, err := payload.Expand(src, p, plain)
			if err == nil && json.Valid([]byte(was)) && !strings.Contains(src, `\u`) &&
				!json.Valid([]byte(got)) {
				t.Fatalf("%q became no JSON with %q: %s", src, label, got)
			}
		}
	})
}

func BenchmarkExpand(b *testing.B) {
	v := values(b)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = payload.Expand(
			`{"fire":"{{fire.id}}","due":"{{due}}","team":"{{label.team}}","attempt":{{attempt}}}`,
			payload.JSON,
			v,
		)
	}
}
