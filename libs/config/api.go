package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/apikey"
)

// Values of API.Auth.
const (
	AuthOn   = "on"
	AuthOff  = "off"
	AuthAuto = "auto" // on, but for `carillon dev` on loopback
)

// API is what the API allows, and whom.
type API struct {
	Zone         string
	Auth         string
	KeysFile     string
	AdminKey     Secret
	AdminKeyFile string
	TrustHeader  string
	TrustFrom    []string
}

// Register names the settings.
func (c *API) Register(s *Set) {
	s.String(&c.Zone, "zone", "UTC", "IANA time zone of cron expressions that name none")
	s.String(&c.Auth, "auth", AuthAuto, "on: callers of the API need keys; off: whoever reaches it may do everything; auto: on, but for carillon dev on a loopback address")
	s.String(&c.KeysFile, "api-keys-file", "", "file with a line app:key (or app:sha256:<hex>) per key, of scope write, besides the keys made by the API")
	s.Secret(&c.AdminKey, "admin-key", "the first key of scope admin, for every app, by which others are made; carillon admin-key prints one")
	s.String(&c.AdminKeyFile, "admin-key-file", "", "file with the admin key")
	s.String(&c.TrustHeader, "trust-header", "", "header by which a gateway says whom it has let in: <app>, or <scope>:<app>; ignored unless it comes from trust-from")
	s.List(&c.TrustFrom, "trust-from", "", "CIDRs of that gateway, with commas between")
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// Validate checks them.
func (c *API) Validate() error {
	var errs []error
	if _, err := time.LoadLocation(c.Zone); err != nil || c.Zone == "" || c.Zone == "Local" {
		errs = append(errs, fmt.Errorf("zone: %q is not an IANA time zone such as Europe/Berlin", c.Zone))
	}
	errs = append(errs, oneOf("auth", c.Auth, AuthOn, AuthOff, AuthAuto))
	if c.AdminKey != "" && c.AdminKeyFile != "" {
		errs = append(errs, errors.New("admin-key: given together with admin-key-file: give one of the two"))
	}
	if _, err := c.Admin(); err != nil {
		errs = append(errs, err)
	}
	if (c.TrustHeader == "") != (len(c.TrustFrom) == 0) {
		errs = append(errs, errors.New("trust-header: needs trust-from, and trust-from needs it"))
	}
	if c.TrustHeader != "" && (!headerName.MatchString(c.TrustHeader) || strings.EqualFold(c.TrustHeader, "Authorization")) {
		errs = append(errs, fmt.Errorf("trust-header: %q is not the name of a header of its own", c.TrustHeader))
	}
	if _, err := c.Trusted(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Admin returns the hash of the admin key, nil where there is none. The file is read each time.
func (c *API) Admin() (*apikey.Hash, error) {
	name, text := "admin-key", c.AdminKey.Reveal()
	if c.AdminKeyFile != "" {
		b, err := os.ReadFile(c.AdminKeyFile)
		if err != nil {
			return nil, fmt.Errorf("admin-key-file: %w", err)
		}
		name, text = "admin-key-file", string(b)
	}
	if text = strings.TrimSpace(text); text == "" && c.AdminKeyFile == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	k, err := apikey.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: carillon admin-key prints one", name, err)
	}
	h := k.Hash()
	return &h, nil
}

// Trusted returns trust-from.
func (c *API) Trusted() ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(c.TrustFrom))
	for _, text := range c.TrustFrom {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("trust-from: %q is not a CIDR such as 10.0.0.0/8", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
