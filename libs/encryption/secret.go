package encryption

import (
	"fmt"
	"io"
)

// Redacted is shown in place of a secret.
const Redacted = "REDACTED"

// Secret is text that is never shown: by fmt with any verb, by JSON, YAML, text and zerolog it is
// REDACTED, also as a field of whatever struct is printed (the text lies behind a pointer, which
// fmt does not follow there). Reveal is the only way to it. The zero value is no secret.
type Secret struct{ text *string }

// NewSecret makes a secret of a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero tells whether there is no secret.
func (s Secret) IsZero() bool { return s.text == nil }

// String returns REDACTED, or nothing where there is no secret.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return Redacted
}

// Format keeps every verb of fmt from showing it.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText keeps JSON, YAML and zerolog from showing it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a secret that a user wrote.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = NewSecret(string(b))
	return nil
}
