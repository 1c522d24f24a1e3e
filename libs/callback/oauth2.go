package callback

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	maxTokens         = 4096
	tokenRefreshEarly = 10 * time.Second // before a token expires it is replaced
	defaultTokenLife  = time.Hour        // of a token without an expiry
	tokenErrorTTL     = time.Second      // during which all callers get the same error
	maxTokenSize      = 16 << 10         // bytes, because a token becomes a header
)

// grant is the cache key of a token. Secrets are in their encrypted form.
type grant struct {
	app, policy, tokenURL, client, scopes, params, secretParams string

	secret timer.Sealed
	inBody bool
}

func grantOf(app string, p *egress.Policy, o *timer.OAuth2) grant {
	values := make(url.Values, len(o.Params))
	for k, v := range o.Params {
		values.Set(k, v)
	}
	secrets := make(url.Values, len(o.SecretParams))
	for k, v := range o.SecretParams {
		secrets.Set(k, string(v))
	}
	return grant{
		app:          app,
		policy:       p.Key(),
		tokenURL:     o.TokenURL,
		client:       o.ClientID,
		scopes:       strings.Join(o.Scopes, " "),
		params:       values.Encode(),
		secretParams: secrets.Encode(),
		secret:       o.Secret,
		inBody:       o.InBody,
	}
}

// tokens caches the OAuth2 tokens of all apps. Of the callers that need the same token one fetches
// it, and the others wait. The lock is a channel, so that each waiter gives up at its own deadline.
type tokens struct {
	transports *transports
	o          *NetOptions
	cache      *lru.Cache[grant, *token]
}

type token struct {
	lock  chan struct{} // holds one value while unlocked
	err   error
	until time.Time

	// value is set with the lock and refused without it, because others hold that while they fetch a
	// token, and a refusal must not be lost. nil: there was none.
	value atomic.Pointer[tokenValue]
}

// tokenValue is one answer of a token server. A late refusal of an earlier one does not count.
type tokenValue struct {
	text    string
	refused atomic.Bool
}

// usable returns whether the cached value, or the error in its place, may be used.
func (e *token) usable() bool {
	return time.Now().Before(e.until) && (e.err != nil || !e.value.Load().refused.Load())
}

func newTokens(t *transports, o *NetOptions) (*tokens, error) {
	cache, err := lru.New[grant, *token](maxTokens)
	if err != nil {
		return nil, fmt.Errorf("making the cache of tokens: %w", err)
	}
	return &tokens{transports: t, o: o, cache: cache}, nil
}

// get returns a token. cached tells that it was in the cache before.
func (t *tokens) get(
	ctx context.Context,
	app string,
	p *egress.Policy,
	o *timer.OAuth2,
) (value string, cached bool, err error) {
	g := grantOf(app, p, o)
	e := t.entry(g)
	select {
	case <-e.lock:
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
	defer func() { e.lock <- struct{}{} }()
	if e.usable() {
		if e.err != nil {
			return "", true, e.err
		}
		return e.value.Load().text, true, nil
	}
	value, e.until, e.err = t.fetch(ctx, app, p, o)
	// It may be the same text again, and is not refused then.
	e.value.Store(&tokenValue{text: value})
	if errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded) {
		e.until = time.Time{} // the caller's own timeout; the next caller may have more time
	}
	return value, false, e.err
}

// entry returns the cache entry of a grant. Concurrent callers get the same entry.
func (t *tokens) entry(g grant) *token {
	if e, ok := t.cache.Get(g); ok {
		return e
	}
	e := &token{lock: make(chan struct{}, 1)}
	e.lock <- struct{}{}
	if old, ok, _ := t.cache.PeekOrAdd(g, e); ok {
		return old
	}
	return e
}

// cachedTokenRefused is what the record of an attempt says besides the receiver's answer. The token
// may have been revoked early, and then another attempt succeeds.
const cachedTokenRefused = "the token was a cached one, and the next call gets a new one"

// drop discards a token that the receiver refused, unless there is another one since.
func (t *tokens) drop(app string, p *egress.Policy, o *timer.OAuth2, value string) {
	if v := t.entry(grantOf(app, p, o)).value.Load(); v != nil && v.text == value {
		v.refused.Store(true)
	}
}

func (t *tokens) fetch(
	ctx context.Context,
	app string,
	p *egress.Policy,
	o *timer.OAuth2,
) (string, time.Time, error) {
	again := time.Now().Add(tokenErrorTTL)
	secret, err := openSecret(t.o.Secrets, app, o.Secret)
	if err != nil {
		return "", again, fmt.Errorf("oauth2.secret: %w", err)
	}
	transport, err := t.transports.get(p, transportKey{policy: p.Key()})
	if err != nil {
		return "", again, err
	}
	params := make(url.Values, len(o.Params)+len(o.SecretParams))
	for k, v := range o.Params {
		params.Set(k, v)
	}
	hidden := secretForms(nil, secret.Reveal())
	for k, v := range o.SecretParams {
		value, err := openSecret(t.o.Secrets, app, v)
		if err != nil {
			return "", again, fmt.Errorf("oauth2.params.%s: %w", k, err)
		}
		params.Set(k, value.Reveal())
		hidden = secretForms(hidden, value.Reveal())
	}
	c := clientcredentials.Config{
		ClientID:       o.ClientID,
		ClientSecret:   secret.Reveal(),
		TokenURL:       o.TokenURL,
		Scopes:         o.Scopes,
		EndpointParams: params,
		AuthStyle:      oauth2.AuthStyleInHeader,
	}
	if o.InBody {
		c.AuthStyle = oauth2.AuthStyleInParams
	}
	client := &http.Client{
		Transport:     tokenTransport{transport}, // dials under the egress policy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	tok, err := c.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	switch {
	case err != nil:
		return "", again, tokenError(err, hidden)
	case len(tok.AccessToken) > maxTokenSize || !validValue(tok.AccessToken):
		return "", again, errors.New(
			"the token server answered with a token that no header can hold",
		)
	}
	until := time.Now().Add(defaultTokenLife)
	if !tok.Expiry.IsZero() {
		// A token that lives only seconds is used for half of its life. Otherwise every fire would
		// fetch one.
		until = tok.Expiry.Add(-min(tokenRefreshEarly, time.Until(tok.Expiry)/2))
	}
	return tok.AccessToken, until, nil
}

// tokenTransport marks token requests as made for a timer.
type tokenTransport struct{ base http.RoundTripper }

// RoundTrip sends a marked copy, because a transport must not change its request.
func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(egress.HeaderTokenRequest, "1")
	return t.base.RoundTrip(r)
}

// tokenError keeps of a token server's answer only a valid error code. The rest may be of any
// length and contain anything, including the secrets, whose forms are hidden.
func tokenError(err error, hidden []string) error {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		s := fmt.Sprintf("the token server answered %d", e.Response.StatusCode)
		if validCode(e.ErrorCode) {
			s += ": " + redactAll(e.ErrorCode, hidden)
		}
		return errors.New(s)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return &redactedError{err, "asking the token server: " + redactAll(err.Error(), hidden)}
}

// validCode returns whether an OAuth2 error code looks like those of RFC 6749: lower-case letters
// and underscores, at most 40.
func validCode(s string) bool {
	return s != "" && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// redactedError is an error with redacted text, because an answer that is not HTTP is quoted in the
// error.
type redactedError struct {
	err  error
	text string
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// tokenFailure returns the result of an attempt that got no token. It is retried unless the token
// server's address is refused.
func tokenFailure(ctx, callCtx context.Context, err error, timeout time.Duration) Result {
	if errors.Is(err, errNoOpener) {
		return invalidResult(err)
	}
	r := failedResult(ctx, callCtx, err, timeout)
	if r.Failure == timer.FailureTimeout && timeOver(callCtx) {
		r.Error = fmt.Sprintf("no answer of the token server within %s", timeout)
	}
	if r.Failure != timer.FailureRefused && r.Failure != timer.FailureCanceled {
		r.Class, r.Failure = Retry, timer.FailureAuth
	}
	return r
}
