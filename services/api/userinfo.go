package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// A user and a password in a URL are a secret. They are taken out of it and kept as the secret
// header that they would be sent as, so that they are encrypted at rest and shown as REDACTED.

const authorization = "Authorization"

// userinfo does so with a target that is being read.
func (in *targetReader) userinfo(field string, t *timer.Target) {
	plain, header, ok := callback.Userinfo(t.URL)
	switch {
	case !ok || t.Kind != timer.KindHTTP && t.Kind != "":
		return // of the other kinds the checks refuse it
	case header == "":
		in.r.invalid(
			field+".url",
			"has a user or a password that cannot be read, or has a variable: give secret_headers with Authorization",
		)
		return
	case hasAuthorization(t):
		in.r.invalid(
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

// moveUserinfo returns a definition with the userinfo of its URLs as secret headers: one of v1, or one
// that was stored before. Without keys it stays as it is.
func (s *Service) moveUserinfo(app string, d timer.Definition) timer.Definition {
	if s.opts.Secrets == nil {
		return d
	}
	move := func(t timer.Target) timer.Target {
		plain, header, ok := callback.Userinfo(t.URL)
		switch {
		case !ok || header == "" || t.Kind != timer.KindHTTP:
			return t
		case hasAuthorization(&t): // it was never sent
			t.URL = plain
			return t
		}
		return withAuthorization(
			t,
			plain,
			s.opts.Secrets.Seal(encryption.NewSecret(header), callback.SecretBinding(app)),
		)
	}
	d.Target = move(d.Target)
	d.Targets = slices.Clone(d.Targets)
	for i := range d.Targets {
		d.Targets[i] = move(d.Targets[i])
	}
	return d
}

// withoutUserinfo returns how a target is shown, whether it was lifted or not.
func withoutUserinfo(t *timer.Target) *timer.Target {
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
