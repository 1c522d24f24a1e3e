// Package encryption encrypts secrets at rest with XChaCha20-Poly1305, using a keyring from the
// environment or a file.
//
// An encrypted text is "cs1.<key id>.<base64url of nonce and ciphertext>". Opening it requires the
// owner and the use (Binding). A text moved to another app or another use does not open. Encryption
// is deterministic: the same secret, binding and key give the same text, because the nonce is
// derived from them.
//
// The first key of the keyring encrypts; all keys decrypt. To rotate, add a new key after the
// others everywhere, then move it to the front everywhere. Then run `carillon reencrypt` on the
// stored secrets, and remove the old key. Remove it only when every service has the new keyring,
// and everything derived from the old key has expired (Derive). That is the tokens of accepted
// attempts (timer.MaxAsync), and for a day the idempotency keys of creates with secrets. Such
// requests are recognized by their encrypted text: see Others. A backup from before still needs the
// old key.
//
//	keyring.go     the keyring: encrypts, decrypts and derives keys
//	secret.go      a secret in memory, which is never shown
//	definition.go  encrypts the secrets of a definition under another key
package encryption
