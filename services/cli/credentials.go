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
	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// keyVariable holds the key of commands that call the API. No flag takes the key itself, because
// process lists would show it.
const keyVariable = config.EnvPrefix + "API_KEY"

// credentials are the API key of a command.
type credentials struct {
	file, key string

	keptFor string // the address of the context, if its key file is not used because of another one
}

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
		text, _ := env(keyVariable)
		return c.take(keyVariable, text)
	}
	b, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("reading the key: %w", err)
	}
	if err := c.take(c.file, string(b)); err != nil {
		return err
	}
	if c.key == "" {
		return fmt.Errorf("reading the key: %s is empty", c.file)
	}
	return nil
}

// take takes the key from a text that may have white space around it, and a byte order mark of an
// editor. A header cannot hold other bytes, and the library's error would not name the source.
func (c *credentials) take(source, text string) error {
	c.key = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff"))
	if strings.ContainsFunc(c.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return usageError(
			source + ": expected one key, without blanks and special characters, found some: copy it again",
		)
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
	help := c.hint(client.NewError(resp, body), app)
	if help == nil {
		return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(body))
	}
	return fmt.Errorf("%s: %s\n%w", resp.Status, bytes.TrimSpace(body), help)
}

// hint returns how to correct an error answer that the key or the address explains, or nil. A
// gateway's 5xx is not about the address, and its 401 is about the key.
func (c *credentials) hint(e *client.Error, app string) error {
	status := e.Status
	switch {
	case e.External && strings.Contains(e.Detail, "HTTP request to an HTTPS server"):
		return errors.New("it has TLS: use https://… as its address")
	case e.NoPath():
		return errors.New(
			"check the address of the API, which is without a path unless a gateway adds one; " +
				"or the API is older than this command: see carillon version",
		)
	case e.External && status < http.StatusInternalServerError &&
		status != http.StatusUnauthorized && status != http.StatusTooManyRequests:
		return errors.New(client.Elsewhere)
	case status == http.StatusUnauthorized && c.key == "" && c.keptFor != "":
		return fmt.Errorf(
			"the key file of the context is for %s only: give one for this address by --key-file",
			c.keptFor,
		)
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
			"give a key that may do it: --key-file names its file",
		)
	case e.NoApp() && c.key == "":
		return errors.New("carillon app list shows the apps that there are")
	case e.NoApp() && app != "":
		return fmt.Errorf(
			"carillon app list shows the apps of this key; or the key belongs to another app than %q",
			app,
		)
	case status == http.StatusNotFound && c.key != "" && app != "":
		return fmt.Errorf("or the key belongs to another app than %q", app)
	default:
		return nil
	}
}
