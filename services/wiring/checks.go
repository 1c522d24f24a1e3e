package wiring

import (
	"errors"
	"fmt"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/zone"
	"github.com/carillon-timer/carillon/services/api/signin"
)

// zoneCheck checks the default time zone together with the other settings. It has no settings of its
// own.
type zoneCheck struct {
	api   *config.API
	zones *config.Zones
}

func (zoneCheck) Register(*config.Set) {}

func (c zoneCheck) Validate() error {
	d, err := openTZData(c.zones.File)
	if err != nil {
		return nil //nolint:nilerr // the start reports the file
	}
	return checkZone(d, c.api.Zone)
}

func openTZData(file string) (*zone.Database, error) {
	if file == "" {
		return zone.Embedded(), nil
	}
	d, err := zone.Open(file)
	if err != nil {
		return nil, fmt.Errorf("tzdata: %w", err)
	}
	return d, nil
}

func checkZone(d *zone.Database, name string) error {
	if _, err := d.Load(name); err != nil {
		return fmt.Errorf("zone: %w", err)
	}
	return nil
}

// rolesCheck checks what groups may do together with the other settings. It has no settings of its
// own.
type rolesCheck struct{ oidc *config.OIDC }

func (rolesCheck) Register(*config.Set) {}

func (c rolesCheck) Validate() error {
	_, err := signInRules(c.oidc.Roles)
	return err
}

func signInRules(texts []string) ([]signin.Rule, error) {
	rules := make([]signin.Rule, len(texts))
	errs := make([]error, len(texts))
	for i, text := range texts {
		if rules[i], errs[i] = signin.ParseRule(text); errs[i] != nil {
			errs[i] = fmt.Errorf("oidc-roles: %w", errs[i])
		}
	}
	return rules, errors.Join(errs...)
}
