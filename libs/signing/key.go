package signing

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Kind is the algorithm of a key.
type Kind string

// Kinds of keys.
const (
	HMAC    Kind = "hmac-sha256"
	Ed25519 Kind = "ed25519"
)

// Prefixes of keys as text.
const (
	PrefixHMAC    = "whsec_"
	PrefixPrivate = "whsk_"
	PrefixPublic  = "whpk_"
)

const (
	minSecret = 24 // bytes; both limits are of the scheme
	maxSecret = 64
	newSecret = 32
)

// Key is a signing key. It never shows its text, which only Reveal returns. It is a pointer to a
// pointer, because fmt prints only the address of one, even in an unexported field, where fmt
// cannot call methods.
type Key struct{ k **keyMaterial }

func keyOf(m *keyMaterial) Key { return Key{&m} }

func (k Key) material() *keyMaterial {
	if k.k == nil {
		return nil
	}
	return *k.k
}

type keyMaterial struct {
	kind   Kind
	secret []byte // HMAC
	priv   ed25519.PrivateKey
}

// NewKey creates a key.
func NewKey(kind Kind) (Key, error) {
	switch kind {
	case HMAC:
		b := make([]byte, newSecret)
		_, _ = rand.Read(b) // it never fails
		return keyOf(&keyMaterial{kind: HMAC, secret: b}), nil
	case Ed25519:
		_, priv, err := ed25519.GenerateKey(rand.Reader)
		return keyOf(&keyMaterial{kind: Ed25519, priv: priv}), err
	default:
		return Key{}, fmt.Errorf(
			"%q is not a kind of signing key: it is %s or %s",
			kind,
			HMAC,
			Ed25519,
		)
	}
}

// ParseKey parses "whsec_…" or "whsk_…". Its error shows nothing of the text.
func ParseKey(text string) (Key, error) {
	if s, ok := strings.CutPrefix(text, PrefixHMAC); ok {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(b) < minSecret || len(b) > maxSecret {
			return Key{}, fmt.Errorf(
				"is not %s and base64 of %d to %d bytes",
				PrefixHMAC,
				minSecret,
				maxSecret,
			)
		}
		return keyOf(&keyMaterial{kind: HMAC, secret: b}), nil
	}
	if s, ok := strings.CutPrefix(text, PrefixPrivate); ok {
		b, err := base64.StdEncoding.DecodeString(s)
		switch {
		case err == nil && len(b) == ed25519.SeedSize:
			return keyOf(&keyMaterial{kind: Ed25519, priv: ed25519.NewKeyFromSeed(b)}), nil
		case err == nil && len(b) == ed25519.PrivateKeySize && ed25519.NewKeyFromSeed(b[:ed25519.SeedSize]).Equal(ed25519.PrivateKey(b)):
			return keyOf(&keyMaterial{kind: Ed25519, priv: b}), nil
		}
		return Key{}, fmt.Errorf(
			"is not %s and base64 of an Ed25519 key, or of its seed",
			PrefixPrivate,
		)
	}
	return Key{}, errors.New(
		"is not a signing key: it begins with " + PrefixHMAC + " or " + PrefixPrivate,
	)
}

// IsZero returns whether there is no key.
func (k Key) IsZero() bool { return k.k == nil }

// Kind returns the algorithm of the key.
func (k Key) Kind() Kind {
	if k.k == nil {
		return ""
	}
	return k.material().kind
}

// Reveal returns the text that ParseKey reads. It is stored encrypted, and shown once when the key
// is created.
func (k Key) Reveal() string {
	switch k.Kind() {
	case HMAC:
		return PrefixHMAC + base64.StdEncoding.EncodeToString(k.material().secret)
	case Ed25519:
		return PrefixPrivate + base64.StdEncoding.EncodeToString(k.material().priv)
	default:
		return ""
	}
}

// Public returns the text with which a receiver verifies ("whpk_…"), or "" for HMAC, where that is
// the secret itself.
func (k Key) Public() string {
	if k.Kind() != Ed25519 {
		return ""
	}
	return PrefixPublic + base64.StdEncoding.EncodeToString(
		k.material().priv.Public().(ed25519.PublicKey),
	)
}

// String returns the kind of the key, without its text.
func (k Key) String() string {
	if k.k == nil {
		return ""
	}
	return "REDACTED " + string(k.material().kind) + " key"
}

// Format hides the text from every verb of fmt.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText hides the text from JSON, YAML and zerolog.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
