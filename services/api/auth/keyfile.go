package auth

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// Keys maps the SHA-256 of a bearer key from a file to its app. These keys have the scope write.
// Only hashes are kept, so neither memory nor the time of a comparison reveals a key.
type Keys map[[sha256.Size]byte]string

const sumPrefix = "sha256:"

// LoadKeys reads a file with one key per line: app:key, or app:sha256:<hex of the key's SHA-256>.
// An app may have several keys. Blank lines and lines that begin with # are skipped.
func LoadKeys(path string) (Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the keys of apps: %w", err)
	}
	defer f.Close()
	keys := make(Keys)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // some editors write a byte order mark
		}
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		app, key, _ := strings.Cut(line, ":")
		sum := sha256.Sum256([]byte(key))
		if h, hashed := strings.CutPrefix(key, sumPrefix); hashed {
			b, err := hex.DecodeString(h)
			if err != nil || len(b) != sha256.Size {
				return nil, fmt.Errorf(
					"reading the keys of apps: %s:%d: not a SHA-256 in hex",
					path,
					n,
				)
			}
			sum = [sha256.Size]byte(b)
		}
		if app == "" || key == "" {
			return nil, fmt.Errorf("reading the keys of apps: %s:%d: not app:key", path, n)
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf(
				"reading the keys of apps: %s:%d: a key with blanks or special characters, which callers cannot send",
				path,
				n,
			)
		}
		if owner, taken := keys[sum]; taken && owner != app {
			return nil, fmt.Errorf(
				"reading the keys of apps: %s:%d: another app has this key",
				path,
				n,
			)
		}
		keys[sum] = app
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the keys of apps: %w", err)
	}
	return keys, nil
}

// app returns the app of a key.
func (k Keys) app(text string) (string, bool) {
	if k == nil {
		return "", false
	}
	app, known := k[sha256.Sum256([]byte(text))]
	return app, known
}
