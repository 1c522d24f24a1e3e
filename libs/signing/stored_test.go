package signing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/timer"
)

// plaintextOpener returns secrets unchanged.
type plaintextOpener struct{ opened int }

func (p *plaintextOpener) Open(s timer.Sealed, _ encryption.Binding) (encryption.Secret, error) {
	p.opened++
	return encryption.NewSecret(string(s)), nil
}

func TestTheNewestKeysOfEachKindSign(t *testing.T) {
	t.Parallel()
	var stored []signing.StoredKey
	for range 3 {
		for _, kind := range []signing.Kind{signing.HMAC, signing.Ed25519} {
			k, err := signing.NewKey(kind)
			require.NoError(t, err)
			stored = append(
				stored,
				signing.StoredKey{Kind: string(kind), Secret: timer.Sealed(k.Reveal())},
			)
		}
	}
	o := new(plaintextOpener)
	s, err := signing.SignerOf("a", stored, o)
	require.NoError(t, err)
	require.NotNil(t, s)
	require.Equal(t, min(2*2, signing.MaxKeys), o.opened, "two of each kind")

	s, err = signing.SignerOf("a", nil, nil)
	require.NoError(t, err)
	require.Nil(t, s)
	_, err = signing.SignerOf("a", stored, nil)
	require.ErrorContains(t, err, "encryption-keys")
}
