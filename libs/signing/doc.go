// Package signing signs callbacks by the Standard Webhooks scheme
// (https://www.standardwebhooks.com):
//
//	webhook-id         the fire id: the same on every attempt
//	webhook-timestamp  unix seconds of the attempt
//	webhook-signature  "v1,<base64>" (HMAC-SHA256) or "v1a,<base64>" (Ed25519), one for each active key, separated by blanks
//
// The signed text is "<id>.<timestamp>.<body>", byte for byte. Two keys of a kind are active while
// an app rotates. A receiver that knows either of them accepts the callback. An app may have keys
// of both kinds.
//
// Keys are text. "whsec_<base64>" is a secret for HMAC of 24 to 64 bytes. "whsk_<base64>" is an
// Ed25519 key (64 bytes, or its seed of 32). "whpk_<base64>" is the public half, which receivers
// get.
//
//	key.go     keys: creates them, reads them from text, and never shows them
//	signer.go  signs a callback with the active keys of an app
//	stored.go  the signer of an app's stored keys
package signing
