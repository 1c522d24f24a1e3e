package wiring

import (
	"strings"

	"github.com/carillon-timer/carillon/services/api/signin"
)

// signIn returns the identity provider of the settings, or nil. It does not call the provider.
func (k *Kit) signIn() (*signin.Provider, error) {
	s := &k.Settings.OIDC
	if s.Issuer == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	if strings.HasPrefix(s.Issuer, "http:") {
		k.Log.Warn().Str("issuer", s.Issuer).
			Msg("identity provider without TLS: its keys can be replaced on the way (oidc-issuer)")
	}
	secret, err := s.Secret()
	if err != nil {
		return nil, err
	}
	since, err := s.SessionsSince()
	if err != nil {
		return nil, err
	}
	rules, err := signInRules(s.Roles)
	if err != nil {
		return nil, err
	}
	return signin.New(signin.Options{
		Issuer: s.Issuer, ClientID: s.ClientID, Secret: secret, Audience: s.Audience,
		GroupsClaim: s.GroupsClaim, Scopes: s.Scopes, Rules: rules, RedirectURL: s.RedirectURL,
		Length: s.Session, Since: since, Now: k.Clock.Now,
	})
}
