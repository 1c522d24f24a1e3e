package encryption

import (
	"fmt"
	"io"
)

// Redacted is shown in place of a secret.
const Redacted = "REDACTED"

// Secret is text that is never shown. Formatted by fmt with any verb, or as JSON, YAML, text or by
// zerolog, it is REDACTED. That also holds for a field of any printed struct, because fmt does not
// follow the pointer to the text there. Only Reveal returns the text. The zero value is no secret.
type Secret struct{ text *string }

// NewSecret returns a secret with the given text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero returns whether there is no secret.
func (s Secret) IsZero() bool { return s.text == nil }

// String returns REDACTED, or nothing without a secret.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return Redacted
}

// Format hides the text from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText hides the text from JSON, YAML and zerolog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText stores a secret that a user wrote.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = NewSecret(string(b))
	return nil
}
