package config

import (
	"net/url"
	"strings"
)

// Redacted is shown in place of what is secret.
const Redacted = "REDACTED"

// Secret is text that is never shown: a password, a token. Reveal is the only way to it.
type Secret string

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// GoString keeps %#v from showing it.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps JSON, YAML and zerolog from showing it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// DSN is where a server is and how to log in there: a URL, or MySQL's
// user:password@tcp(host:port)/database. It is shown without its password. Reveal is the only way
// to that.
type DSN string

// Reveal returns the text itself.
func (d DSN) Reveal() string { return string(d) }

func (d DSN) String() string { return redact(string(d)) }

// GoString keeps %#v from showing the password.
func (d DSN) GoString() string { return d.String() }

// MarshalText keeps JSON, YAML and zerolog from showing the password.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// redact hides what stands between the first colon behind the scheme and the last @ before the
// path: a password may hold an @ or a slash of its own, so the last @ of the whole text counts
// where it is not clearly a URL.
func redact(s string) string {
	scheme, rest := "", s
	if i := strings.Index(s, "://"); i >= 0 {
		scheme, rest = s[:i+3], s[i+3:]
	}
	at := strings.LastIndexByte(rest, '@')
	if at >= 0 {
		user, host := rest[:at], rest[at:]
		if i := strings.IndexByte(user, ':'); i >= 0 {
			user = user[:i+1] + Redacted
		}
		rest = user + host
	}
	return scheme + redactQuery(rest)
}

// redactQuery hides the values of parameters that carry credentials.
func redactQuery(s string) string {
	at := strings.IndexByte(s, '?')
	if at < 0 {
		return s
	}
	pairs := strings.Split(s[at+1:], "&")
	for i, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		plain, err := url.QueryUnescape(name)
		if err != nil {
			plain = name
		}
		if value != "" && isSecretName(plain) {
			pairs[i] = name + "=" + Redacted
		}
	}
	return s[:at+1] + strings.Join(pairs, "&")
}

func isSecretName(s string) bool {
	s = strings.ToLower(s)
	for _, part := range []string{"password", "passwd", "token", "secret"} {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}
