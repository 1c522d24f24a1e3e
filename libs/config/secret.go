package config

import (
	"net/url"
	"os"
	"strings"
)

// Redacted is shown in place of a secret.
const Redacted = "REDACTED"

// Secret is text that is never shown, such as a password or a token. Only Reveal returns it.
type Secret string

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the text from JSON, YAML and zerolog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// readSecret returns the text of a file without the white space around it, and without the byte
// order mark that some editors write.
func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err //nolint:wrapcheck // it names the file; the caller adds the setting
	}
	return strings.TrimSpace(strings.TrimPrefix(string(b), "\ufeff")), nil
}

// DSN is the address of a server with its login: a URL, or MySQL's
// user:password@tcp(host:port)/database. It is shown without the password, which only Reveal
// returns.
type DSN string

// Reveal returns the whole text.
func (d DSN) Reveal() string { return string(d) }

func (d DSN) String() string { return redact(string(d)) }

// GoString hides the password from %#v.
func (d DSN) GoString() string { return d.String() }

// MarshalText hides the password from JSON, YAML and zerolog.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// redact hides the text between the first colon after the scheme and the last @. A password may
// contain @ or a slash, so the last @ of the whole text counts.
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
