package callback

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/timer"
)

// CheckTarget tells whether a target can be called as it is defined. Its error is a *timer.Error (invalid) that names the
// field. An empty method is POST.
func CheckTarget(t *timer.Target) error {
	switch t.Kind {
	case timer.KindHTTP:
	case "":
		return timer.Invalid("target.kind", `is required: "http"`)
	default:
		return timer.Invalid("target.kind", fmt.Sprintf(`%q is not a kind: it is "http"`, t.Kind))
	}
	if err := checkURL(t.URL); err != nil {
		return err
	}
	switch t.Method {
	case "", http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return timer.Invalid("target.method", fmt.Sprintf("%q is not a method: it is GET, POST, PUT, PATCH or DELETE", t.Method))
	}
	if err := checkHeaders(t.Headers); err != nil {
		return err
	}
	if len(t.Body) > timer.MaxBodyLen {
		return timer.Invalid("target.body", fmt.Sprintf("is %d bytes long: at most %d are allowed", len(t.Body), timer.MaxBodyLen))
	}
	if !utf8.ValidString(t.Body) {
		return timer.Invalid("target.body", "is not valid UTF-8")
	}
	return nil
}

func checkURL(s string) error {
	if s == "" {
		return timer.Invalid("target.url", `is required, such as "https://example.com/hook"`)
	}
	if len(s) > timer.MaxURLLen {
		return timer.Invalid("target.url", fmt.Sprintf("is %d bytes long: at most %d are allowed", len(s), timer.MaxURLLen))
	}
	if !utf8.ValidString(s) {
		return timer.Invalid("target.url", "is not valid UTF-8")
	}
	if _, err := parseURL(s); err != nil {
		return timer.Invalid("target.url", err.Error())
	}
	return nil
}

// connectionHeaders are about one connection and not about the request: the client sets them itself.
var connectionHeaders = map[string]bool{
	"Connection": true, "Content-Length": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

func checkHeaders(headers map[string][]string) error {
	if len(headers) > timer.MaxHeaders {
		return timer.Invalid("target.headers", fmt.Sprintf("are %d: at most %d are allowed", len(headers), timer.MaxHeaders))
	}
	size := 0
	seen := make(map[string]bool, len(headers))
	for name, values := range headers {
		size += len(name)
		for _, v := range values {
			size += len(v)
		}
		key := http.CanonicalHeaderKey(name)
		if msg := badHeader(name, key, values, seen[key]); msg != "" {
			return timer.Invalid("target.headers."+name, msg)
		}
		seen[key] = true
	}
	if size > timer.MaxHeaderLen {
		return timer.Invalid("target.headers", fmt.Sprintf("are %d bytes long: at most %d are allowed", size, timer.MaxHeaderLen))
	}
	return nil
}

func badHeader(name, key string, values []string, twice bool) string {
	switch {
	case !validName(name):
		return "is not a header name: letters, digits and -"
	case twice:
		return "is given twice, in different letter case"
	case strings.HasPrefix(key, ownHeaderPrefix) || key == HeaderIdempotencyKey:
		return "is set by Carillon itself: leave it out"
	case connectionHeaders[key]:
		return "is about the connection, which is not the timer's: leave it out"
	case key == "Host" && (len(values) != 1 || !validHost(values[0])):
		return "needs exactly one value, a host name"
	}
	for _, v := range values {
		if !validValue(v) {
			return "has a value with a control character, or with bytes that are not UTF-8"
		}
	}
	return ""
}

// validName tells whether s is a token of RFC 9110.
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letterOrDigit := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letterOrDigit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

func validHost(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`/\?#@"<>`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
