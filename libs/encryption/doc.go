// Package encryption encrypts secrets at rest: XChaCha20-Poly1305 under a ring of keys from the
// environment or a file.
//
// A sealed text is "cs1.<key id>.<base64url of nonce and ciphertext>". Whoever opens it must say
// whose it is (Binding): a text moved to another app or another use does not open. Sealing is
// deterministic: the same secret of the same binding under the same key is the same text (a
// synthetic nonce). The first key of the ring seals, all open: rotate by putting a new key behind
// the others everywhere, then first, running `carillon reseal` over what is stored, and dropping
// the old key: not before every service has the new ring, and neither before what was derived from
// it has run out (Derive). That are the tokens of attempts that receivers have accepted
// (timer.MaxAsync), and for a day the idempotency keys of creates with secrets, whose requests are
// known by their sealed text: see Others.
package encryption
