package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// Prefix begins every key.
const Prefix = "crl_"

// Lengths of the parts of a key.
const (
	IDLen       = 12
	secretLen   = 43
	checksumLen = 6
	keyLen      = len(Prefix) + IDLen + 1 + secretLen + checksumLen
)

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// ErrMalformed is Parse's error for text that is not a key.
var ErrMalformed = errors.New("is not an API key")

// Hash is the stored form of a key.
type Hash [sha256.Size]byte

// Key is an API key as its holder has it. It never shows its secret, which only Reveal returns. The
// zero value is no key.
type Key struct{ text *string }

// New creates a key.
func New() Key {
	body := Prefix + random(IDLen) + "_" + random(secretLen)
	text := body + checksum(body)
	return Key{&text}
}

// Parse parses a key. Its error is ErrMalformed, and shows nothing of the text.
func Parse(text string) (Key, error) {
	if len(text) != keyLen || !strings.HasPrefix(text, Prefix) || text[len(Prefix)+IDLen] != '_' {
		return Key{}, ErrMalformed
	}
	body := text[:keyLen-checksumLen]
	if subtle.ConstantTimeCompare([]byte(checksum(body)), []byte(text[len(body):])) != 1 {
		return Key{}, ErrMalformed
	}
	return Key{&text}, nil
}

// ID returns the public part, by which the key's hash is found.
func (k Key) ID() string {
	if k.text == nil {
		return ""
	}
	return (*k.text)[len(Prefix) : len(Prefix)+IDLen]
}

// Hash returns the stored form of the key.
func (k Key) Hash() Hash {
	if k.text == nil {
		return Hash{}
	}
	return sha256.Sum256([]byte(*k.text))
}

// Matches returns in constant time whether a stored hash belongs to this key. The zero key matches
// nothing.
func (k Key) Matches(h Hash) bool {
	own := k.Hash()
	return subtle.ConstantTimeCompare(own[:], h[:]) == 1 && k.text != nil
}

// Reveal returns the key's text, which is shown once when the key is created.
func (k Key) Reveal() string {
	if k.text == nil {
		return ""
	}
	return *k.text
}

// String returns the key's id without its secret.
func (k Key) String() string {
	if k.text == nil {
		return ""
	}
	return Prefix + k.ID() + "_REDACTED"
}

// Format hides the secret from every verb of fmt.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText hides the secret from JSON, YAML and zerolog.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// random returns n random letters and digits, each equally likely.
func random(n int) string {
	out := make([]byte, 0, n)
	var buf [64]byte
	for len(out) < n {
		_, _ = rand.Read(buf[:]) // it never fails
		for _, b := range buf {
			if b &= 63; int(b) < len(alphabet) && len(out) < n {
				out = append(out, alphabet[b])
			}
		}
	}
	return string(out)
}

// checksum returns the CRC-32 of a text as letters and digits.
func checksum(s string) string {
	var out [checksumLen]byte
	n := crc32.ChecksumIEEE([]byte(s))
	for i := checksumLen - 1; i >= 0; i-- {
		out[i] = alphabet[n%uint32(len(alphabet))]
		n /= uint32(len(alphabet))
	}
	return string(out[:])
}
