package ui

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	sessionCookie = "carillon_session"
	sessionLength = 12 * time.Hour
	instantBytes  = 8
)

var errNoSession = errors.New("no session")

// sessions keep the viewer's API key in a sealed cookie, so every replica knows every session and
// none keeps state. A revoked key ends its sessions, because the API refuses it.
type sessions struct {
	seals []cipher.AEAD // the first seals, all open
	now   func() time.Time
}

// newSessions returns sessions by keys of 32 bytes. Without keys it draws one, and sessions end
// with the process.
func newSessions(keys [][]byte, now func() time.Time) (*sessions, error) {
	if len(keys) == 0 {
		key := make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("drawing a key of sessions: %w", err)
		}
		keys = [][]byte{key}
	}
	s := &sessions{now: now}
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("key of sessions: %w", err)
		}
		seal, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("key of sessions: %w", err)
		}
		s.seals = append(s.seals, seal)
	}
	return s, nil
}

// start sets the cookie of a session with an API key.
func (s *sessions) start(w http.ResponseWriter, r *http.Request, key string) {
	setCookie(w, r, sessionCookie, s.seal(sessionCookie, sessionLength, []byte(key)), sessionLength)
}

// seal returns the value of a cookie that open accepts under the same label until it ends.
func (s *sessions) seal(label string, lives time.Duration, content []byte) string {
	ends := uint64(s.now().Add(lives).Unix()) //nolint:gosec // after 1970
	plain := binary.BigEndian.AppendUint64(nil, ends)
	//nolint:gosec // the AEAD draws the nonce itself
	sealed := s.seals[0].Seal(nil, nil, append(plain, content...), []byte(label))
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// key returns the API key of a request's session, or errNoSession.
func (s *sessions) key(r *http.Request) (string, error) {
	content, err := s.open(r, sessionCookie, sessionCookie)
	return string(content), err
}

// open returns the content of a request's cookie, or errNoSession.
func (s *sessions) open(r *http.Request, name, label string) ([]byte, error) {
	c, err := r.Cookie(name)
	if err != nil {
		return nil, errNoSession
	}
	sealed, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return nil, errNoSession
	}
	for _, seal := range s.seals {
		plain, err := seal.Open(nil, nil, sealed, []byte(label))
		if err != nil || len(plain) < instantBytes {
			continue
		}
		if uint64(s.now().Unix()) >= binary.BigEndian.Uint64(plain) { //nolint:gosec // after 1970
			break
		}
		return plain[instantBytes:], nil
	}
	return nil, errNoSession
}

// handOverLength is how long the answer to a form is shown again.
const handOverLength = 10 * time.Minute

// handOverCookies have answers to forms until a page shows them.
var handOverCookies = []string{madeKeyCookie, redrivenCookie, importedCookie}

// forget removes what pages would still show of the viewer's answers. The browser's next viewer must
// not see it. It removes all: after a redirect of an identity provider a browser does not say which
// it has.
func (q *request) forget() {
	for _, name := range append([]string{didCookie}, handOverCookies...) {
		setCookie(q.w, q.r, name, "", -time.Second)
	}
}

// handOver sends the viewer to a page that shows the answer to a form, sealed in a cookie until then.
// A browser then can go back to the page, and reloading it does not send the form again. No address
// has the answer.
func (q *request) handOver(name, to string, data any) error {
	if !slices.Contains(handOverCookies, name) {
		return fmt.Errorf("answer of a form: the end of a session does not remove %s", name)
	}
	b, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("answer of a form: %w", err)
	}
	setCookie(q.w, q.r, name, q.page.sessions.seal(name, handOverLength, b), handOverLength)
	q.redirect(to)
	return nil
}

// didCookie has what the viewer has just done until a page says it.
const didCookie = "carillon_did"

// did sends the viewer to a page that says once what they have done. The address says it, too, but
// counts only with the cookie: anyone can write a link, and a page may be loaded again.
func (q *request) did(to, what string) {
	setCookie(q.w, q.r, didCookie, what, time.Minute)
	to, fragment, found := strings.Cut(to, "#")
	to += "?did=" + what
	if found {
		to += "#" + fragment
	}
	q.redirect(to)
}

// takeDid returns what the viewer has just done, once.
func (q *request) takeDid() string {
	c, err := q.r.Cookie(didCookie)
	did := q.r.URL.Query().Get("did")
	if _, known := q.views.texts["did."+did]; !known || err != nil || c.Value != did {
		return ""
	}
	setCookie(q.w, q.r, didCookie, "", -time.Second)
	return did
}

// takeOver reads what handOver has sealed. It returns false if there is none any more.
func (q *request) takeOver(name string, data any) bool {
	b, err := q.page.sessions.open(q.r, name, name)
	return err == nil && json.Unmarshal(b, data) == nil
}

// end removes the cookie.
func (*sessions) end(w http.ResponseWriter, r *http.Request) {
	setCookie(w, r, sessionCookie, "", -time.Second)
}

// setCookie sets a cookie that no script reads and no other site sends. Over TLS it is secure, also
// where a gateway ends TLS. Anyone may send X-Forwarded-Proto, but a false one only keeps a viewer's
// own cookie from plain HTTP.
func setCookie(w http.ResponseWriter, r *http.Request, name, value string, lives time.Duration) {
	setCookieOf(w, r, &http.Cookie{ //nolint:gosec // the rest is set there
		Name: name, Value: value, Path: Prefix, MaxAge: int(lives.Seconds()),
		SameSite: http.SameSiteStrictMode,
	})
}

// setCookieOf sets a cookie that no script reads.
//
//nolint:gosec // plain HTTP has no secure cookies
func setCookieOf(w http.ResponseWriter, r *http.Request, c *http.Cookie) {
	c.HttpOnly, c.Secure = true, overTLS(r)
	http.SetCookie(w, c)
}

func overTLS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}
