// Package apikey makes, reads and checks API keys. A key is
//
//	crl_<id>_<secret><checksum>
//
// with an id of 12 letters and digits, by which its hash is found, a secret of 43 (256 random bits)
// and a checksum of 6, so that a typing error is told from a wrong key without a look into the
// store, and scanners for leaked secrets know one when they see it. Only the hash is stored:
// SHA-256, which suffices for a secret that nobody could guess.
package apikey
