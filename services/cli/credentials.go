package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/process"
)

// keyVariable holds the key of commands that call the API. No flag takes the key itself, because
// process lists would show it.
const keyVariable = config.EnvPrefix + "API_KEY"

// credentials are the API key of a command.
type credentials struct{ file, key string }

// register registers the setting.
func (c *credentials) register(s *config.Set) {
	s.String(
		&c.file,
		"key-file",
		"",
		"file with a key of scope write, of the app or of all apps; by default the environment's "+keyVariable,
	)
}

// read takes the key from the file, if one is named, or from the environment. The key may be empty,
// because not every API requires one.
func (c *credentials) read(env process.Env) error {
	if c.file == "" {
		c.key, _ = env(keyVariable)
		return nil
	}
	b, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("reading the key: %w", err)
	}
	if c.key = strings.TrimSpace(string(b)); c.key == "" {
		return fmt.Errorf("reading the key: %s is empty", c.file)
	}
	return nil
}

func (c *credentials) authorize(h http.Header) {
	if c.key != "" {
		h.Set("Authorization", "Bearer "+c.key)
	}
}

var errUnknownKey = errors.New(
	"the API does not know this key: it was revoked, or belongs to another deployment",
)

// responseError converts an error answer of the API, with a hint on how to correct it.
func (c *credentials) responseError(resp *http.Response, body []byte, app string) error {
	help := c.hint(resp.StatusCode, app)
	if help == nil {
		return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(body))
	}
	return fmt.Errorf("%s: %s\n%w", resp.Status, bytes.TrimSpace(body), help)
}

// hint returns how to correct an error answer that the key explains, or nil.
func (c *credentials) hint(status int, app string) error {
	switch {
	case status == http.StatusUnauthorized && c.key == "":
		return fmt.Errorf(
			"give a key: --key-file names a file with a key of app %q, or the admin key; or set %s",
			app,
			keyVariable,
		)
	case status == http.StatusUnauthorized:
		return errUnknownKey
	case status == http.StatusForbidden:
		return errors.New(
			"this key has a scope that does not allow it: give one of scope write, or admin for keys and settings",
		)
	case status == http.StatusNotFound && c.key != "":
		return fmt.Errorf("does this key belong to another app? the app is %q", app)
	default:
		return nil
	}
}
