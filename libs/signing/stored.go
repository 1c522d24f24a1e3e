package signing

import (
	"errors"
	"fmt"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxOfKind is how many keys of a kind sign at once: one rotating in, one rotating out.
const maxOfKind = 2

// Opener decrypts secrets; *encryption.Keyring implements it.
type Opener interface {
	Open(s timer.Sealed, b encryption.Binding) (encryption.Secret, error)
}

// StoredKey is a signing key as the store has it.
type StoredKey struct {
	Kind   string
	Secret timer.Sealed
}

// SignerOf returns the signer of an app's newest keys, which come first, or nil for an app without
// keys. An app with keys is never called without a signature, so a key that cannot be read is an
// error. A nil o opens none.
func SignerOf(app string, stored []StoredKey, o Opener) (*Signer, error) {
	if len(stored) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	if o == nil {
		return nil, errors.New(
			"this process has no encryption key for signing keys: set encryption-keys",
		)
	}
	kinds := make(map[string]int, 1)
	keys := make([]Key, 0, len(stored))
	for i := range stored {
		kinds[stored[i].Kind]++
		if kinds[stored[i].Kind] > maxOfKind || len(keys) == MaxKeys {
			continue
		}
		secret, err := o.Open(
			stored[i].Secret,
			encryption.Binding{App: app, Use: encryption.UseSigning},
		)
		if err != nil {
			return nil, fmt.Errorf("decrypting a signing key: %w", err)
		}
		k, err := ParseKey(secret.Reveal())
		if err != nil {
			return nil, fmt.Errorf("parsing a signing key: %w", err)
		}
		keys = append(keys, k)
	}
	s, err := NewSigner(keys...)
	if err != nil {
		return nil, fmt.Errorf("making a signer: %w", err)
	}
	return s, nil
}
