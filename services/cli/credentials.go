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
	var help error
	switch {
	case resp.StatusCode == http.StatusUnauthorized && c.key == "":
		help = fmt.Errorf(
			"give a key: -key-file names a file with a key of app %q, or the admin key; or set %s",
			app,
			keyVariable,
		)
	case resp.StatusCode == http.StatusUnauthorized:
		help = errUnknownKey
	case resp.StatusCode == http.StatusForbidden:
		help = errors.New("this key has scope read: give one of scope write")
	case resp.StatusCode == http.StatusNotFound && c.key != "":
		help = fmt.Errorf("does this key belong to another app? -app is %q", app)
	default:
		return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(body))
	}
	return fmt.Errorf("%s: %s\n%w", resp.Status, bytes.TrimSpace(body), help)
}
