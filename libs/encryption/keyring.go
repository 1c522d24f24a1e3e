package encryption

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Binding is the owner and the use of a secret. It is authenticated with the encrypted text, and
// not part of it.
type Binding struct {
	App string
	Use string // such as "target" or "signing"
}

// Uses of secrets.
const (
	UseTarget  = "target"  // secret headers, TLS keys and OAuth2 secrets of the app's timers
	UseSigning = "signing" // the app's signing keys
)

// Errors of Open.
var (
	ErrUnknownKey = errors.New("it was encrypted under a key that is not in the keyring")
	ErrNotSealed  = errors.New("it is not an encrypted text")
	ErrMismatch   = errors.New(
		"it does not open: it was changed, belongs to another app or use, or its key has another value here",
	)
)

const (
	scheme   = "cs1"
	maxKeyID = 32
)

var encoding = base64.RawURLEncoding.Strict()

// Keyring is the encryption keys of a deployment. It is immutable and safe for concurrent use. It
// never shows a key.
type Keyring struct {
	keys  map[string]keyringKey
	first string
}

type keyringKey struct {
	aead     cipher.AEAD
	secret   Secret
	nonceKey []byte // for the hash that derives nonces, separate from the encryption key
}

// nonce returns HMAC-SHA256 over the authenticated data and the secret, cut to 24 bytes. The data's
// length comes first, so that different pairs never have the same input.
func (k keyringKey) nonce(data []byte, plain string) []byte {
	h := hmac.New(sha256.New, k.nonceKey)
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(data)))
	h.Write(n[:])
	h.Write(data)
	h.Write([]byte(plain))
	return h.Sum(nil)[:chacha20poly1305.NonceSizeX]
}

// NewKey returns a new key with the given id, in the form that ParseKeyring reads.
func NewKey(id string) Secret {
	var b [chacha20poly1305.KeySize]byte
	_, _ = rand.Read(b[:]) // it never fails
	return NewSecret(id + ":" + base64.StdEncoding.EncodeToString(b[:]))
}

// ParseKeyring parses keys of the form "<id>:<base64 of 32 bytes>", separated by commas, blanks or
// lines. Lines that begin with # are comments. The first key encrypts. Its error shows no key.
func ParseKeyring(text Secret) (*Keyring, error) {
	r := &Keyring{keys: map[string]keyringKey{}}
	for line := range strings.Lines(text.Reveal()) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, item := range strings.FieldsFunc(line, func(c rune) bool { return c == ',' || c <= ' ' }) {
			if err := r.add(item); err != nil {
				return nil, fmt.Errorf("key %d of the keyring: %w", len(r.keys)+1, err)
			}
		}
	}
	if r.first == "" {
		return nil, errors.New("the keyring has no key")
	}
	return r, nil
}

// LoadKeyring reads a keyring from a file, which may begin with a byte order mark.
func LoadKeyring(path string) (*Keyring, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the keyring: %w", err)
	}
	return ParseKeyring(NewSecret(strings.TrimPrefix(string(b), "\ufeff")))
}

func (r *Keyring) add(item string) error {
	id, text, ok := strings.Cut(item, ":")
	if !ok || !validID(id) {
		return errors.New(`it is not "<id>:<base64>" with an id of letters, digits, - and _`)
	}
	if _, twice := r.keys[id]; twice {
		return fmt.Errorf("there are two keys with the id %q: give one of them another id", id)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		if key, err = encoding.DecodeString(text); err != nil {
			// err would show part of the text
			return fmt.Errorf("what follows %q is not base64", id+":")
		}
	}
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return fmt.Errorf("%q has %d bytes, and not %d", id, len(key), chacha20poly1305.KeySize)
	}
	k := keyringKey{aead: aead, secret: NewSecret(string(key))}
	k.nonceKey = k.derive("nonce")
	r.keys[id] = k
	if r.first == "" {
		r.first = id
	}
	return nil
}

func validID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' &&
			c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= maxKeyID
}

// Seal encrypts a secret. The empty secret becomes the empty text.
//
// It is deterministic: the same secret, binding and key give the same text, so that definitions
// with secrets can be compared by hash. The nonce is a keyed hash of binding and secret, so
// different messages have different nonces, as with random ones. The only leak is that two secrets
// of one app and use are equal. Without the key, a guessed secret cannot be verified.
func (r *Keyring) Seal(s Secret, b Binding) timer.Sealed {
	if s.IsZero() {
		return ""
	}
	k := r.keys[r.first]
	plain := s.Reveal()
	buf := make(
		[]byte,
		chacha20poly1305.NonceSizeX,
		chacha20poly1305.NonceSizeX+len(plain)+chacha20poly1305.Overhead,
	)
	data := b.data(r.first)
	copy(buf, k.nonce(data, plain))
	buf = k.aead.Seal(buf, buf, []byte(plain), data)
	return timer.Sealed(scheme + "." + r.first + "." + encoding.EncodeToString(buf))
}

// Open decrypts a text from Seal with the same binding. Its errors are those above, and show
// nothing of the text.
func (r *Keyring) Open(s timer.Sealed, b Binding) (Secret, error) {
	if s == "" {
		return Secret{}, nil
	}
	id, err := KeyID(s)
	if err != nil {
		return Secret{}, err
	}
	k, ok := r.keys[id]
	if !ok {
		return Secret{}, fmt.Errorf("key %q: %w", id, ErrUnknownKey)
	}
	buf, err := encoding.DecodeString(string(s[len(scheme)+len(id)+2:]))
	if err != nil || len(buf) < chacha20poly1305.NonceSizeX+chacha20poly1305.Overhead {
		return Secret{}, ErrNotSealed
	}
	nonce, text := buf[:chacha20poly1305.NonceSizeX], buf[chacha20poly1305.NonceSizeX:]
	plain, err := k.aead.Open(text[:0], nonce, text, b.data(id))
	if err != nil {
		return Secret{}, ErrMismatch
	}
	return NewSecret(string(plain)), nil
}

// Reencrypt encrypts a text under the first key if it is under another one; changed tells whether
// it did. It also fails for a text under a key that has the first one's id and is not it.
func (r *Keyring) Reencrypt(
	s timer.Sealed,
	b Binding,
) (sealed timer.Sealed, changed bool, err error) {
	if s == "" {
		return s, false, nil
	}
	id, err := KeyID(s)
	if err != nil {
		return s, false, err
	}
	plain, err := r.Open(s, b)
	if err != nil || id == r.first {
		return s, false, err
	}
	return r.Seal(plain, b), true, nil
}

// First returns the id of the key that encrypts.
func (r *Keyring) First() string { return r.first }

// Fingerprints returns id:fingerprint of each key, the first one first. They tell whether two
// keyrings have the same key, and nothing else about it.
func (r *Keyring) Fingerprints() []string {
	const shown = 4
	ids := slices.DeleteFunc(
		slices.Sorted(maps.Keys(r.keys)),
		func(id string) bool { return id == r.first },
	)
	all := make([]string, 0, len(r.keys))
	for _, id := range append([]string{r.first}, ids...) {
		all = append(all, id+":"+hex.EncodeToString(r.keys[id].derive("fingerprint")[:shown]))
	}
	return all
}

// Derive returns a key for another purpose from each key of the keyring, starting with the first:
// 32 bytes by HMAC-SHA256.
func (r *Keyring) Derive(purpose string) [][]byte {
	out := [][]byte{r.keys[r.first].derive(purpose)}
	for id, k := range r.keys {
		if id != r.first {
			out = append(out, k.derive(purpose))
		}
	}
	return out
}

func (k keyringKey) derive(purpose string) []byte {
	h := hmac.New(sha256.New, []byte(k.secret.Reveal()))
	h.Write([]byte("carillon/derive/" + purpose))
	return h.Sum(nil)
}

// Format hides the keys from every verb of fmt.
func (r Keyring) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "keyring "+Redacted) }

// KeyID returns the id of the key that encrypted a text.
func KeyID(s timer.Sealed) (string, error) {
	parts := strings.SplitN(string(s), ".", 3)
	if len(parts) != 3 || parts[0] != scheme || !validID(parts[1]) {
		return "", ErrNotSealed
	}
	return parts[1], nil
}

// data returns the authenticated data. Every part has its length, so that different bindings never
// have the same data.
func (b Binding) data(key string) []byte {
	return fmt.Appendf(
		nil,
		"carillon/%s|%d:%s|%d:%s|%d:%s",
		scheme,
		len(key),
		key,
		len(b.App),
		b.App,
		len(b.Use),
		b.Use,
	)
}
