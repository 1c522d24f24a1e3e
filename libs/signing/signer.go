package signing

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"strconv"
	"sync"
	"time"
)

// Headers of a signed callback, in their canonical form.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// MaxKeys is the maximum number of active keys of an app: two of each kind, which rotate
// independently. The store enforces it.
const MaxKeys = 4

// Signer signs with the active keys of an app. It is safe for concurrent use. Create one when the
// keys change, and reuse it.
type Signer struct {
	keys []Key
	macs []sync.Pool // of hash.Hash, one pool per key
}

// NewSigner returns a signer with 1 to MaxKeys keys.
func NewSigner(keys ...Key) (*Signer, error) {
	if len(keys) == 0 || len(keys) > MaxKeys {
		return nil, fmt.Errorf("%d signing keys: there are 1 to %d", len(keys), MaxKeys)
	}
	s := &Signer{keys: keys, macs: make([]sync.Pool, len(keys))}
	for i, k := range keys {
		switch k.Kind() {
		case HMAC:
			s.macs[i].New = func() any { return hmac.New(sha256.New, k.material().secret) }
		case Ed25519:
		default:
			return nil, fmt.Errorf("signing key %d is none", i+1)
		}
	}
	return s, nil
}

// Sign returns the values of webhook-timestamp and webhook-signature for a message with the given
// id and time.
func (s *Signer) Sign(id string, at time.Time, body string) (timestamp, signature string) {
	timestamp = strconv.FormatInt(at.Unix(), 10)
	head := id + "." + timestamp + "."
	out := make([]byte, 0, 128)
	for i, k := range s.keys {
		if i > 0 {
			out = append(out, ' ')
		}
		if k.material().kind == Ed25519 {
			msg := make([]byte, 0, len(head)+len(body))
			msg = append(append(msg, head...), body...)
			out = append(out, "v1a,"...)
			out = base64.StdEncoding.AppendEncode(out, ed25519.Sign(k.material().priv, msg))
			continue
		}
		var sum [sha256.Size]byte
		h := s.macs[i].Get().(hash.Hash)
		h.Reset()
		writeString(h, head)
		writeString(h, body)
		out = append(out, "v1,"...)
		out = base64.StdEncoding.AppendEncode(out, h.Sum(sum[:0]))
		s.macs[i].Put(h)
	}
	return timestamp, string(out)
}

var chunks = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// writeString writes a text without copying all of it at once.
func writeString(h hash.Hash, s string) {
	buf := chunks.Get().(*[4 << 10]byte)
	defer chunks.Put(buf)
	for s != "" {
		n := copy(buf[:], s)
		_, _ = h.Write(buf[:n]) // it never fails
		s = s[n:]
	}
}
