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
	if b.OAuth2 != nil {
		in.oauth2(field+".oauth2", b.OAuth2, t, old)
	}
}

// oauth2 checks and encrypts the secrets of a token request.
func (in *targetReader) oauth2(field string, o *oauth2Body, t, old *timer.Target) {
	if _, _, has := callback.Userinfo(o.TokenURL); has {
		in.r.Invalid(
			field+".token_url",
			"has a user and a password: give client_id and secret",
		)
	}
	t.OAuth2 = &timer.OAuth2{
		TokenURL: o.TokenURL,
		ClientID: o.ClientID,
		Scopes:   o.Scopes,
		InBody:   o.InBody,
	}
	var had *timer.OAuth2
	if old != nil {
		had = old.OAuth2
	}
	// Parameters go to the token server. The token obtained with the secrets goes to the target.
	kept := func(at string) bool {
		return in.sameHost(at, had.TokenURL, o.TokenURL) && in.sameDestination(at, old, t)
	}
	at := field + ".secret"
	t.OAuth2.Secret = in.seal(at, o.Secret, func() (timer.Sealed, bool) {
		if had == nil {
			return "", false
		}
		return had.Secret, kept(at)
	}, checkLen(at, o.Secret))
	for name, value := range o.Params {
		if timer.PublicParam(name) || value.IsZero() {
			if t.OAuth2.Params == nil {
				t.OAuth2.Params = make(map[string]string)
			}
			t.OAuth2.Params[name] = value.Reveal()
			continue
		}
		if t.OAuth2.SecretParams == nil {
			t.OAuth2.SecretParams = make(map[string]timer.Sealed, len(o.Params))
		}
		at := field + ".params." + name
		t.OAuth2.SecretParams[name] = in.seal(at, value.Secret, func() (timer.Sealed, bool) {
			stored, is := in.storedParam(had, name)
			return stored, is && kept(at)
		}, checkLen(at, value.Secret))
	}
}

// storedParam returns a secret parameter of a stored token request. Older definitions have it in
// the clear.
func (in *targetReader) storedParam(had *timer.OAuth2, name string) (timer.Sealed, bool) {
	if had == nil {
		return "", false
	}
	if sealed, is := had.SecretParams[name]; is {
		return sealed, true
	}
	plain := had.Params[name]
	if plain == "" || in.service.Secrets == nil {
		return "", false
	}
	return in.service.Secrets.Seal(
		encryption.NewSecret(plain),
		callback.SecretBinding(in.app),
	), true
}

// checkLen returns a check of a secret's length.
func checkLen(field string, s encryption.Secret) func() error {
	return func() error {
		if n := len(s.Reveal()); n > timer.MaxSecretLen {
			return timer.Invalid(
				field,
				fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxSecretLen, n),
			)
		}
		return nil
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
			b.OAuth2 != nil && b.OAuth2.hasRedacted() {
			return true
		}
	}
	return false
}

func (o *oauth2Body) hasRedacted() bool {
	for name, v := range o.Params {
		if !timer.PublicParam(name) && v.Reveal() == encryption.Redacted {
			return true
		}
	}
	return o.Secret.Reveal() == encryption.Redacted
}
