package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxSession is store.MaxSignIn: the store forgets which sessions are ended when none that lasts so
// long is left.
const maxSession = 31 * 24 * time.Hour

// OIDC are the settings of signing in by OpenID Connect.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret Secret
	SecretFile   string
	RedirectURL  string
	Audience     string
	Scopes       []string
	GroupsClaim  string
	Roles        []string
	Session      time.Duration
	Since        string
}

// Register registers the settings.
func (c *OIDC) Register(s *Set) {
	const defaultSession = 8 * time.Hour
	s.String(&c.Issuer, "oidc-issuer", "",
		"URL of the identity provider by which people sign in to the page; empty: by API keys only")
	s.String(&c.ClientID, "oidc-client-id", "", "name of the page at the identity provider")
	s.Secret(&c.ClientSecret, "oidc-client-secret", "secret of the page at the identity provider")
	s.String(&c.SecretFile, "oidc-client-secret-file", "", "file with that secret")
	s.String(&c.RedirectURL, "oidc-redirect-url", "",
		"address of /ui/sign-in/callback as browsers reach it; empty: by the request's host")
	s.String(&c.Audience, "oidc-audience", "",
		"audience of the provider's tokens by which machines call the API; empty: by keys only")
	s.List(&c.Scopes, "oidc-scopes", "openid,profile,email",
		"scopes asked of the identity provider, separated by commas")
	s.String(&c.GroupsClaim, "oidc-groups-claim", "groups", "claim with a person's groups")
	s.List(
		&c.Roles,
		"oidc-roles",
		"",
		"what groups may do: group=role@app or group=role@* with the role viewer, operator, editor or admin, separated by commas",
	)
	s.Duration(
		&c.Session,
		"oidc-session",
		defaultSession,
		"how long a person stays signed in, at most 744h",
	)
	s.String(&c.Since, "oidc-sessions-since", "",
		"instant in RFC 3339; sessions that began before are ended")
}

// Validate checks the settings.
func (c *OIDC) Validate() error {
	var errs []error
	refuse := func(refused bool, why string) {
		if refused {
			errs = append(errs, errors.New(why))
		}
	}
	on := c.Issuer != ""
	if on {
		errs = append(
			errs,
			webURL("oidc-issuer", c.Issuer),
			notEmpty("oidc-groups-claim", c.GroupsClaim),
		)
		refuse(c.ClientID == "" && c.Audience == "",
			"oidc-issuer: needs oidc-client-id for people, or oidc-audience for machines")
		refuse(
			len(c.Roles) == 0,
			"oidc-issuer: needs oidc-roles, without which nobody may do anything",
		)
		refuse(
			c.ClientID != "" &&
				!slices.Contains(strings.Fields(strings.Join(c.Scopes, " ")), "openid"),
			fmt.Sprintf(
				"oidc-scopes: expected openid among them, found %q: add it, or nobody can sign in",
				strings.Join(c.Scopes, ","),
			),
		)
		refuse(c.Audience != "" && c.Audience == c.ClientID,
			"oidc-audience: expected another than oidc-client-id")
	}
	others := []string{
		c.ClientID, c.ClientSecret.Reveal(), c.SecretFile, c.RedirectURL, c.Audience,
		strings.Join(c.Roles, ","), c.Since,
	}
	refuse(!on && strings.Join(others, "") != "",
		"oidc-issuer: needed by the other settings of oidc")
	refuse(c.ClientSecret != "" && c.SecretFile != "",
		"oidc-client-secret: given together with oidc-client-secret-file: give one of the two")
	if c.RedirectURL != "" {
		errs = append(errs, webURL("oidc-redirect-url", c.RedirectURL))
	}
	errs = append(errs, atLeast("oidc-session", c.Session, time.Minute))
	refuse(c.Session > maxSession,
		fmt.Sprintf("oidc-session: %s is more than %s", c.Session, maxSession))
	_, err := c.SessionsSince()
	return errors.Join(append(errs, err)...)
}

// SessionsSince returns the instant before which no session began, or the zero time.
func (c *OIDC) SessionsSince() (time.Time, error) {
	if c.Since == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, c.Since)
	if err != nil {
		return time.Time{}, fmt.Errorf(
			"oidc-sessions-since: expected an instant such as 2030-01-31T09:00:00Z, found %q",
			c.Since,
		)
	}
	return at, nil
}

// Secret returns the secret of the client, empty for a public client. It reads the file each time.
func (c *OIDC) Secret() (string, error) {
	if c.SecretFile == "" {
		return c.ClientSecret.Reveal(), nil
	}
	text, err := readSecret(c.SecretFile)
	if err != nil {
		return "", fmt.Errorf("oidc-client-secret-file: %w", err)
	}
	return text, nil
}

func webURL(name, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("%s: expected an http or https URL, found %q", name, text)
	}
	return nil
}
