package definition

import (
	"maps"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// A user and a password in a URL are a secret. The API removes them from the URL and stores them as
// the secret header Authorization, which is encrypted at rest and shown as REDACTED.

const authorization = "Authorization"

// userinfo moves the userinfo of a target's URL into its secret headers.
func (in *targetReader) userinfo(field string, t *timer.Target) {
	plain, header, ok := callback.Userinfo(t.URL)
	switch {
	case !ok || t.Kind != timer.KindHTTP && t.Kind != "":
		return // the checks refuse it for other kinds
	case header == "":
		in.r.Invalid(
			field+".url",
			"has a user or a password that cannot be read, or has a variable: give secret_headers with Authorization",
		)
		return
	case hasAuthorization(t):
		in.r.Invalid(
			field+".url",
			"has a user and a password, and Authorization is given besides: leave one of the two out",
		)
		return
	}
	sealed := in.seal(
		field+".url",
		encryption.NewSecret(header),
		func() (timer.Sealed, bool) { return "", false },
		func() error {
			return callback.CheckSecretHeader(field+".url", t.Kind, header)
		},
	)
	*t = withAuthorization(*t, plain, sealed)
}

func hasAuthorization(t *timer.Target) bool {
	is := func(name string) bool { return strings.EqualFold(name, authorization) }
	return t.OAuth2 != nil || slices.ContainsFunc(slices.Collect(maps.Keys(t.Headers)), is) ||
		slices.ContainsFunc(slices.Collect(maps.Keys(t.SecretHeaders)), is)
}

func withAuthorization(t timer.Target, plain string, sealed timer.Sealed) timer.Target {
	t.URL = plain
	t.SecretHeaders = maps.Clone(t.SecretHeaders)
	if t.SecretHeaders == nil {
		t.SecretHeaders = make(map[string]timer.Sealed, 1)
	}
	t.SecretHeaders[authorization] = sealed
	return t
}

// MoveUserinfo returns a definition with the userinfo of its URLs as secret headers. It serves v1,
// and definitions stored by older versions. Without keys it returns the definition unchanged.
func (s *Reader) MoveUserinfo(app string, d timer.Definition) timer.Definition {
	if s.Secrets == nil {
		return d
	}
	move := func(t timer.Target) timer.Target {
		plain, header, ok := callback.Userinfo(t.URL)
		switch {
		case !ok || header == "" || t.Kind != timer.KindHTTP:
			return t
		case hasAuthorization(&t): // the userinfo was never sent
			t.URL = plain
			return t
		}
		return withAuthorization(
			t,
			plain,
			s.Secrets.Seal(encryption.NewSecret(header), callback.SecretBinding(app)),
		)
	}
	d.Target = move(d.Target)
	d.Targets = slices.Clone(d.Targets)
	for i := range d.Targets {
		d.Targets[i] = move(d.Targets[i])
	}
	return d
}

// WithoutUserinfo returns a target as it is shown, whether its userinfo was moved or not.
func WithoutUserinfo(t *timer.Target) *timer.Target {
	plain, _, ok := callback.Userinfo(t.URL)
	if !ok {
		return t
	}
	shown := *t
	if hasAuthorization(t) {
		shown.URL = plain
	} else {
		shown = withAuthorization(shown, plain, placeholderSecret)
	}
	return &shown
}
