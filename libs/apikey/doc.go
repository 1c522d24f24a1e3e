// Package apikey creates, parses and verifies API keys. A key is
//
//	crl_<id>_<secret><checksum>
//
// with an id of 12 letters and digits, by which its hash is found, a secret of 43 (256 random bits)
// and a checksum of 6. The checksum distinguishes a typing error from a wrong key without a lookup
// in the store, and lets scanners for leaked secrets recognize a key. Only the hash is stored:
// SHA-256, which is sufficient for a random secret of this length.
package apikey
