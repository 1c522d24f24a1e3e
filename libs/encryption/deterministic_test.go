package encryption_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestEncryptionIsDeterministic checks that equal input gives equal text, and that any difference
// changes the whole text, including the nonce.
func TestEncryptionIsDeterministic(t *testing.T) {
	t.Parallel()
	a, b := encryption.NewKey("a"), encryption.NewKey("b")
	first := parseKeyring(t, a, b)
	secret := encryption.NewSecret("hush")
	bound := encryption.Binding{App: "shop", Use: encryption.UseTarget}
	text := first.Seal(secret, bound)
	require.Equal(t, text, first.Seal(secret, bound))
	require.Equal(
		t,
		text,
		parseKeyring(t, a).Seal(secret, bound),
		"by any process with the same first key",
	)

	const nonce = 32 // 24 bytes in base64, behind "cs1.a."
	texts := map[timer.Sealed]bool{text: true}
	nonces := map[timer.Sealed]bool{text[6 : 6+nonce]: true}
	for _, other := range []timer.Sealed{
		first.Seal(encryption.NewSecret("hush!"), bound), first.Seal(secret, encryption.Binding{App: "shop2", Use: encryption.UseTarget}),
		first.Seal(secret, encryption.Binding{App: "shop", Use: encryption.UseSigning}), parseKeyring(t, b, a).Seal(secret, bound),
	} {
		require.False(t, texts[other])
		require.False(t, nonces[other[6:6+nonce]], "a nonce comes with one message")
		texts[other], nonces[other[6:6+nonce]] = true, true
	}
	require.Len(t, nonces, 5)

	// After a rotation the text differs, and Reencrypt gives the same text as Seal.
	rotated := parseKeyring(t, b, a)
	again, changed, err := rotated.Reencrypt(text, bound)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, rotated.Seal(secret, bound), again)
	for _, r := range []*encryption.Keyring{first, rotated} {
		for s := range map[timer.Sealed]bool{text: true, again: true} {
			got, err := r.Open(s, bound)
			require.NoError(t, err)
			require.Equal(t, "hush", got.Reveal())
		}
	}
}
