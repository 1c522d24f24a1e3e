package definition

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// NoEncryptionKeys is the message about a value that cannot be encrypted.
const NoEncryptionKeys = "expected nothing, as this deployment has no encryption keys, found a value that needs them: leave it out, or ask the operator to configure keys"

// redacted is shown in place of every secret.
var redacted = encryption.NewSecret(encryption.Redacted)

// placeholderSecret replaces a refused secret, so that it is not also reported as missing. It is
// never stored, because the request fails.
const placeholderSecret timer.Sealed = "-"

// secrets checks and encrypts the secrets of a target. REDACTED values are taken from old, which
// may be nil.
func (in *targetReader) secrets(field string, b *TargetBody, t, old *timer.Target) {
	if len(b.SecretHeaders) > 0 {
		t.SecretHeaders = make(map[string]timer.Sealed, len(b.SecretHeaders))
	}
	for name, value := range b.SecretHeaders {
		at := field + ".secret_headers." + name
		t.SecretHeaders[name] = in.seal(at, value, func() (timer.Sealed, bool) {
			had, is := storedHeader(old, name)
			return had, is && in.sameDestination(at, old, t)
		}, func() error { return callback.CheckSecretHeader(at, t.Kind, value.Reveal()) })
	}
	if o := b.TLS; o != nil {
		t.TLS = &timer.TLS{ServerName: o.ServerName, CA: o.CA, Insecure: o.Insecure, Cert: o.Cert}
		if !o.Key.IsZero() {
			t.TLS.Key = in.seal(field+".tls.key", o.Key, func() (timer.Sealed, bool) {
				if old == nil || old.TLS == nil {
					return "", false
				}
				if old.TLS.Cert != o.Cert {
					in.r.Invalid(
						field+".tls.key",
						"expected the key, as cert is another one, found REDACTED: give it anew",
					)
				}
				return old.TLS.Key, old.TLS.Key != ""
			}, func() error {
				if o.Cert == "" {
					return nil // the checks report it
				}
				return callback.CheckKeyPair(field+".tls", o.Cert, o.Key)
			})
		}
	}
	if o := b.OAuth2; o != nil {
		if _, _, has := callback.Userinfo(o.TokenURL); has {
			in.r.Invalid(
				field+".oauth2.token_url",
				"has a user and a password: give client_id and secret",
			)
		}
		t.OAuth2 = &timer.OAuth2{
			TokenURL: o.TokenURL,
			ClientID: o.ClientID,
			Scopes:   o.Scopes,
			Params:   o.Params,
			InBody:   o.InBody,
		}
		at := field + ".oauth2.secret"
		t.OAuth2.Secret = in.seal(at, o.Secret, func() (timer.Sealed, bool) {
			if old == nil || old.OAuth2 == nil {
				return "", false
			}
			// The token obtained with the secret goes to the target.
			return old.OAuth2.Secret, in.sameHost(at, old.OAuth2.TokenURL, o.TokenURL) &&
				in.sameDestination(at, old, t)
		}, func() error {
			if len(o.Secret.Reveal()) > timer.MaxSecretLen {
				return timer.Invalid(
					at,
					fmt.Sprintf(
						"expected at most %d bytes, found %d",
						timer.MaxSecretLen,
						len(o.Secret.Reveal()),
					),
				)
			}
			return nil
		})
	}
}

// seal encrypts a checked secret, or keeps the stored one. It adds errors to the reader.
func (in *targetReader) seal(
	field string,
	value encryption.Secret,
	stored func() (timer.Sealed, bool),
	check func() error,
) timer.Sealed {
	if value.IsZero() {
		in.r.Invalid(field, "expected a secret, found nothing")
		return placeholderSecret
	}
	if value.Reveal() == encryption.Redacted {
		had, ok := stored()
		if !ok {
			in.r.Invalid(
				field,
				"expected the secret, as none is stored that could be kept, found REDACTED: give it",
			)
			return placeholderSecret
		}
		return had
	}
	if err := check(); err != nil {
		in.r.Add(input.Collect(err)...)
		return placeholderSecret
	}
	if in.service.Secrets == nil {
		in.r.Invalid(field, NoEncryptionKeys)
		return placeholderSecret
	}
	return in.service.Secrets.Seal(value, callback.SecretBinding(in.app))
}

const otherDestination = "expected the secret, as it would go elsewhere than before, found REDACTED: give it anew"

// sameDestination refuses to keep a secret whose destination changes. Otherwise a caller who may
// edit a timer could have its secrets sent to itself.
func (in *targetReader) sameDestination(field string, old, now *timer.Target) bool {
	if callback.Topic(old) != callback.Topic(now) {
		in.r.Invalid(field, otherDestination)
	}
	if !strings.EqualFold(virtualHost(old), virtualHost(now)) {
		in.r.Invalid(field, otherDestination)
	}
	return in.sameHost(field, old.URL, now.URL)
}

// virtualHost returns the Host header of a target's request. One address may serve several parties
// that do not trust each other.
func virtualHost(t *timer.Target) string {
	for name, values := range t.Headers {
		if strings.EqualFold(name, "Host") && len(values) > 0 {
			return values[0]
		}
	}
	return ""
}

func (in *targetReader) sameHost(field, old, now string) bool {
	a, err1 := url.Parse(old)
	b, err2 := url.Parse(now)
	if err1 != nil || err2 != nil || a.Scheme != b.Scheme || !strings.EqualFold(a.Host, b.Host) {
		in.r.Invalid(field, otherDestination)
	}
	return true
}

func storedHeader(t *timer.Target, name string) (timer.Sealed, bool) {
	if t == nil {
		return "", false
	}
	for had, sealed := range t.SecretHeaders {
		if strings.EqualFold(had, name) {
			return sealed, true
		}
	}
	return "", false
}

// HasRedactedSecrets returns whether a body has secrets that are to be taken from the stored
// definition.
func HasRedactedSecrets(bodies ...TargetBody) bool {
	for i := range bodies {
		b := &bodies[i]
		for _, v := range b.SecretHeaders {
			if v.Reveal() == encryption.Redacted {
				return true
			}
		}
		if b.TLS != nil && b.TLS.Key.Reveal() == encryption.Redacted ||
			b.OAuth2 != nil && b.OAuth2.Secret.Reveal() == encryption.Redacted {
			return true
		}
	}
	return false
}
