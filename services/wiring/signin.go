package wiring

import (
	"errors"
	"fmt"
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
	rules := make([]signin.Rule, len(s.Roles))
	var errs []error
	for i, text := range s.Roles {
		if rules[i], err = signin.ParseRule(text); err != nil {
			errs = append(errs, fmt.Errorf("oidc-roles: %w", err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return signin.New(signin.Options{
		Issuer: s.Issuer, ClientID: s.ClientID, Secret: secret, Audience: s.Audience,
		GroupsClaim: s.GroupsClaim, Scopes: s.Scopes, Rules: rules, RedirectURL: s.RedirectURL,
		Length: s.Session, Since: since, Now: k.Clock.Now,
	})
}
