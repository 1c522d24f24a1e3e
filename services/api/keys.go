package api

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Keys are the bearer keys of apps: from the key's SHA-256 to the app. Only sums are kept, so that nothing in memory or in a
// comparison's time gives a key away.
type Keys map[[sha256.Size]byte]string

const sumPrefix = "sha256:"

// LoadKeys reads a file with a line app:key, or app:sha256:<hex of the key's SHA-256>, per key. An app may have several; blank
// lines and lines that start with # are skipped.
func LoadKeys(path string) (Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the keys of apps: %w", err)
	}
	defer f.Close()
	keys := make(Keys)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		app, key, _ := strings.Cut(line, ":")
		sum := sha256.Sum256([]byte(key))
		if h, hashed := strings.CutPrefix(key, sumPrefix); hashed {
			b, err := hex.DecodeString(h)
			if err != nil || len(b) != sha256.Size {
				return nil, fmt.Errorf("reading the keys of apps: %s:%d: not a SHA-256 in hex", path, n)
			}
			sum = [sha256.Size]byte(b)
		}
		if app == "" || key == "" {
			return nil, fmt.Errorf("reading the keys of apps: %s:%d: not app:key", path, n)
		}
		if owner, taken := keys[sum]; taken && owner != app {
			return nil, fmt.Errorf("reading the keys of apps: %s:%d: another app has this key", path, n)
		}
		keys[sum] = app
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the keys of apps: %w", err)
	}
	return keys, nil
}

type callerKey struct{}

// identify returns the request with its caller's app, or false where keys are wanted and it has none that is known.
func (s *Service) identify(r *http.Request) (*http.Request, bool) {
	if s.opts.Keys == nil {
		return r, true
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	app, known := s.opts.Keys[sha256.Sum256([]byte(strings.TrimSpace(key)))]
	if !ok || !known {
		return r, false
	}
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, app)), true
}

// mayUse tells whether the caller may act for an app.
func (s *Service) mayUse(ctx context.Context, app string) error {
	if s.opts.Keys == nil || ctx.Value(callerKey{}) == app {
		return nil
	}
	return errForbidden
}
