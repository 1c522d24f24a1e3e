package v2_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// described is one property or parameter of the description.
type described struct {
	at, text string
	schema   map[string]any
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// describedFields returns every property of every schema, at any depth, and every parameter.
func describedFields(doc map[string]any) (all []described) {
	var walk func(at string, s map[string]any)
	walk = func(at string, s map[string]any) {
		for name, p := range asMap(s["properties"]) {
			one := asMap(p)
			text, _ := one["description"].(string)
			all = append(all, described{at + "." + name, text, one})
			walk(at+"."+name, one)
		}
		for _, part := range []string{"items", "additionalProperties"} {
			if inner := asMap(s[part]); inner != nil {
				walk(at+"."+part, inner)
			}
		}
	}
	for name, s := range asMap(asMap(doc["components"])["schemas"]) {
		walk(name, asMap(s))
	}
	for path, operations := range asMap(doc["paths"]) {
		for method, op := range asMap(operations) {
			params, _ := asMap(op)["parameters"].([]any)
			for _, p := range params {
				text, _ := asMap(p)["description"].(string)
				all = append(
					all,
					described{
						fmt.Sprintf("%s %s %v", method, path, asMap(p)["name"]),
						text,
						asMap(asMap(p)["schema"]),
					},
				)
			}
		}
	}
	return all
}

// TestTheDescriptionExplainsValuesAndBounds checks that every enumeration value and every bound is
// documented. A new one without documentation fails here.
func TestTheDescriptionExplainsValuesAndBounds(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	var doc map[string]any
	f.Call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).Into(t, 200, &doc)
	values, bounds := 0, 0
	const whole = 1 << 30 // larger bounds are those of a type
	for _, field := range describedFields(doc) {
		for _, s := range []map[string]any{field.schema, asMap(field.schema["items"])} {
			all, _ := s["enum"].([]any)
			for _, v := range all {
				values++
				explained := regexp.MustCompile(
					`(^|\W)` + regexp.QuoteMeta(fmt.Sprint(v)) + `: \w+`,
				)
				require.Regexp(t, explained, field.text, "%s does not explain %v", field.at, v)
			}
		}
		text := strings.ReplaceAll(field.text, ",", "")
		for _, key := range []string{"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"} {
			n, ok := field.schema[key].(float64)
			if !ok || n > whole || n < -whole || n == 0 {
				continue
			}
			bounds++
			require.Regexp(
				t,
				fmt.Sprintf(`(^|\D)%.0f(\D|$)`, n),
				text,
				"%s does not say its %s",
				field.at,
				key,
			)
		}
	}
	require.Greater(t, values, 100)
	require.Greater(t, bounds, 100)
}

// TestTheDescriptionSaysWhatTheCodeBounds checks that bounds enforced only by code are documented.
func TestTheDescriptionSaysWhatTheCodeBounds(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	var doc map[string]any
	f.Call(t, http.MethodGet, "/api/v2/openapi.json", "", nil).Into(t, 200, &doc)
	all := describedFields(doc)
	for at, words := range map[string]string{
		"ScheduleBody.specs": "256 bytes", "ScheduleBody.every": "1s to 10 years", "ScheduleBody.delay": "10 years", "ScheduleBody.phase": "less than every",
		"ScheduleBody.jitter": "24h", "ScheduleBody.at": "1970 to 2199", "ScheduleBody.anchor": "1970 to 2199", "ScheduleBody.start_at": "1970 to 2199",
		"ScheduleBody.end_at": "1970 to 2199", "RetryBody.attempts": "1 to 20", "RetryBody.wait": "24h", "RetryBody.max_wait": "24h",
		"RetryBody.factor": "1 to 10", "RetryBody.jitter": "0 to 1", "RetryBody.timeout": "10ms to 5m", "RetryBody.give_up_after": "30 days",
		"RetryBody.no_retry": "1 to 16", "MisfireBody.grace": "24h", "MisfireBody.catch_up_window": "10 years", "MisfireBody.max_fires": "10000",
		"ConcurrencyBody.max_queue": "10000", "TargetBody.url": "2048 bytes", "TargetBody.headers": "64 names and 8 KiB", "TargetBody.body": "256 KiB",
		"TargetBody.query": "2048 bytes", "TargetBody.async": "168h", "TargetBody.redirects": "10", "TargetBody.secret_headers": "8 KiB",
		"SuccessBody.body": "512 bytes", "TlsBody.ca": "64 KiB", "TlsBody.cert": "64 KiB", "TlsBody.key": "64 KiB", "PulsarBody.key": "128 bytes",
		"Oauth2Body.secret": "8 KiB", "Oauth2Body.token_url": "2048 bytes", "SettingsBody.rate": "1000000", "SettingsBody.burst": "1000000",
		"SettingsBody.allow": "300 bytes", "NewTimerBody.labels": "256 bytes", "RangeBody.to": "366 days", "RescheduleBody.delay": "10 years",
		"RescheduleBody.at": "2199", "PauseBody.until": "2199",
	} {
		i := slices.IndexFunc(all, func(d described) bool { return d.at == at })
		require.GreaterOrEqual(t, i, 0, "there is no %s", at)
		require.Contains(t, all[i].text, words, at)
	}
}
