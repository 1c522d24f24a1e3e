package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/carillon-timer/carillon/libs/apikey"
)

// Values of API.Auth.
const (
	AuthOn   = "on"
	AuthOff  = "off"
	AuthAuto = "auto" // on, except for `carillon dev` on loopback
)

// API are the settings of the HTTP API.
type API struct {
	Zone         string
	Auth         string
	KeysFile     string
	AdminKey     Secret
	AdminKeyFile string
	Page         bool
	TestCalls    int
}

// Register registers the settings.
func (c *API) Register(s *Set) {
	s.String(&c.Zone, "zone", "UTC", "IANA time zone of cron expressions and calendars without one")
	s.String(
		&c.Auth,
		"auth",
		AuthAuto,
		"on: callers of the API need keys; off: every caller may do everything; auto: on, except for carillon dev on a loopback address",
	)
	s.String(
		&c.KeysFile,
		"api-keys-file",
		"",
		"file with a line app:key (or app:sha256:<hex>) per key of scope write, in addition to keys created by the API",
	)
	s.Secret(
		&c.AdminKey,
		"admin-key",
		"the first key of scope admin, for every app, with which others are created; carillon admin-key prints one",
	)
	s.String(&c.AdminKeyFile, "admin-key-file", "", "file with the admin key")
	s.Bool(&c.Page, "page", true, "serve the page in the browser, at /ui")
	s.Int(
		&c.TestCalls,
		"test-calls",
		8,
		"test calls of targets that one api makes at once, each counted for a second at least; an app gets at most a quarter of them; 0: none",
	)
}

// Validate checks the settings.
func (c *API) Validate() error {
	const mostTestCalls = 1024
	var errs []error
	// The program checks whether the zone exists, because zones may come from a file.
	errs = append(errs, notEmpty("zone", c.Zone))
	errs = append(errs, between("test-calls", c.TestCalls, 0, mostTestCalls))
	errs = append(errs, oneOf("auth", c.Auth, AuthOn, AuthOff, AuthAuto))
	if c.AdminKey != "" && c.AdminKeyFile != "" {
		errs = append(
			errs,
			errors.New("admin-key: given together with admin-key-file: give one of the two"),
		)
	}
	if _, err := c.Admin(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Admin returns the hash of the admin key, or nil without one. It reads the file each time.
func (c *API) Admin() (*apikey.Hash, error) {
	name, text := "admin-key", c.AdminKey.Reveal()
	if c.AdminKeyFile != "" {
		var err error
		if text, err = readSecret(c.AdminKeyFile); err != nil {
			return nil, fmt.Errorf("admin-key-file: %w", err)
		}
		name = "admin-key-file"
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
