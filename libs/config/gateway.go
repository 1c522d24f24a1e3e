package config

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Gateway are the settings of a gateway that names authenticated callers in a header. API and
// executors need the same values: the API trusts the header, and no timer may send it.
type Gateway struct {
	TrustHeader string
	TrustFrom   []string
}

// Register registers the settings.
func (c *Gateway) Register(s *Set) {
	s.String(
		&c.TrustHeader,
		"trust-header",
		"",
		"header in which a gateway names the authenticated caller: <app>, or <scope>:<app>; "+
			"the API ignores it unless it comes from trust-from, and executors never send it for a timer",
	)
	s.List(&c.TrustFrom, "trust-from", "", "CIDRs of that gateway, separated by commas")
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// Validate checks the settings.
func (c *Gateway) Validate() error {
	var errs []error
	if (c.TrustHeader == "") != (len(c.TrustFrom) == 0) {
		errs = append(errs, errors.New("trust-header: needs trust-from, and trust-from needs it"))
	}
	if c.TrustHeader != "" &&
		(!headerName.MatchString(c.TrustHeader) || strings.EqualFold(c.TrustHeader, "Authorization")) {
		errs = append(
			errs,
			fmt.Errorf("trust-header: %q is not the name of a header of its own", c.TrustHeader),
		)
	}
	if _, err := c.Trusted(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Trusted returns the networks of trust-from.
func (c *Gateway) Trusted() ([]netip.Prefix, error) {
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
