package allinone

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

// keyVariable has the key of commands that call the API. No flag takes the key itself: all who may
// list processes would see it.
const keyVariable = config.EnvPrefix + "API_KEY"

// credentials are the key that a command shows the API.
type credentials struct{ file, key string }

// register names the setting.
func (c *credentials) register(s *config.Set) {
	s.String(
		&c.file,
		"key-file",
		"",
		"file with a key of scope write, of the app or of all; else the environment's "+keyVariable,
	)
}

// read takes the key from the file, where one is named, else from the environment. There may be
// none: not every API wants one.
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
	"the API does not know this key: it was revoked, or is another deployment's",
)

// responseError is an answer of the API that is no success, with what helps against it.
func (c *credentials) responseError(resp *http.Response, body []byte, app string) error {
	var help error
	switch {
	case resp.StatusCode == http.StatusUnauthorized && c.key == "":
		help = fmt.Errorf(
			"give a key: -key-file names a file with one of app %q, or the admin key; or set %s",
			app,
			keyVariable,
		)
	case resp.StatusCode == http.StatusUnauthorized:
		help = errUnknownKey
	case resp.StatusCode == http.StatusForbidden:
		help = errors.New("this key may only read: give one of scope write")
	case resp.StatusCode == http.StatusNotFound && c.key != "":
		help = fmt.Errorf("is this key another app's? -app says %q", app)
	default:
		return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(body))
	}
	return fmt.Errorf("%s: %s\n%w", resp.Status, bytes.TrimSpace(body), help)
}
