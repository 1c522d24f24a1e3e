package signin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// keysEvery is the least time between two fetches of the provider's keys. A new key of the provider
// counts at most so long after it is first used.
const keysEvery = 10 * time.Second

// maxKeys limits the provider's answer.
const maxKeys = 1 << 20

// keyFetches limits how often the provider's keys are fetched. The verifier fetches them for each
// token with an unknown key id, and anyone may send tokens with ids that they made up. Between two
// fetches it answers with the latest answer, or with the error there was.
type keyFetches struct {
	next http.RoundTripper
	now  func() time.Time
	url  atomic.Pointer[string] // of the keys; nil: not known yet
	none atomic.Bool            // the latest fetch brought no keys

	// mu is held during a fetch: callers at once wait for it, and take its answer.
	mu     sync.Mutex
	at     time.Time // of the latest fetch; zero: there was none
	from   string    // the URL of that fetch
	status int
	header http.Header
	body   []byte
	err    error
}

// RoundTrip passes on every request but those for the keys.
func (k *keyFetches) RoundTrip(r *http.Request) (*http.Response, error) {
	if of := k.url.Load(); of == nil || r.Method != http.MethodGet || r.URL.String() != *of {
		return k.next.RoundTrip(r) //nolint:wrapcheck // the client wraps it
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	age := k.now().Sub(k.at)
	if k.at.IsZero() || age < 0 || age >= keysEvery || k.from != r.URL.String() {
		k.fetch(r)
		k.at, k.from = k.now(), r.URL.String()
		k.none.Store(k.err != nil || k.status != http.StatusOK || !json.Valid(k.body))
	}
	if k.err != nil {
		return nil, k.err
	}
	return &http.Response{
		Status: http.StatusText(k.status), StatusCode: k.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: k.header.Clone(), Body: io.NopCloser(bytes.NewReader(k.body)),
		ContentLength: int64(len(k.body)), Request: r,
	}, nil
}

func (k *keyFetches) fetch(r *http.Request) {
	resp, err := k.next.RoundTrip(r)
	if err != nil {
		k.err = err
		return
	}
	defer resp.Body.Close()
	k.status, k.header = resp.StatusCode, resp.Header
	if k.body, k.err = io.ReadAll(io.LimitReader(resp.Body, maxKeys)); k.err != nil {
		k.err = fmt.Errorf("reading the provider's keys: %w", k.err)
	}
}

// failed returns whether the latest fetch brought no keys. Then a signature that the keys fetched
// before do not confirm may still be valid. It does not wait for a fetch that goes on.
func (k *keyFetches) failed() bool { return k.none.Load() }
