package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// CompletionTokens creates and verifies the tokens with which receivers complete accepted fires. A
// token is an HMAC over the fire and the attempt, so nothing is stored. It works once, because a
// fire is completed once. Of several targets each has its own, whose HMAC is also over the target's
// index: a target whose answer did not come in time may hold a token of the attempt that another one
// accepted.
type CompletionTokens struct{ keys [][]byte }

// NewCompletionTokens takes keys of at least 32 bytes (encryption.Keyring.Derive("completion")).
// The first key creates tokens; all verify them.
func NewCompletionTokens(keys ...[]byte) (*CompletionTokens, error) {
	if len(keys) == 0 {
		return nil, errors.New("completion tokens need a key")
	}
	for _, k := range keys {
		if len(k) < sha256.Size {
			return nil, errors.New("a key of completion tokens is shorter than 32 bytes")
		}
	}
	return &CompletionTokens{keys}, nil
}

// Give gives a request the tokens of its targets that may complete it later. Of nil there are none.
func (c *CompletionTokens) Give(q *Request) {
	if c == nil {
		return
	}
	if q.Target.Async > 0 {
		q.Token = c.Token(q.Fire, q.Attempt)
	}
	for i := range q.Targets {
		if q.Targets[i].Async <= 0 {
			continue
		}
		if q.TargetTokens == nil {
			q.TargetTokens = make([]string, len(q.Targets))
		}
		q.TargetTokens[i] = c.TargetToken(q.Fire, q.Attempt, i)
	}
}

// Token returns the token of an attempt for a timer's only target.
func (c *CompletionTokens) Token(f timer.FireID, attempt int32) string {
	return base64.RawURLEncoding.EncodeToString(c.sum(c.keys[0], f, attempt, ""))
}

// TargetToken returns the token of an attempt for one of several targets: its index and the HMAC.
func (c *CompletionTokens) TargetToken(f timer.FireID, attempt int32, index int) string {
	i := strconv.Itoa(index)
	return i + "." + base64.RawURLEncoding.EncodeToString(c.sum(c.keys[0], f, attempt, "/"+i))
}

// Verify returns in constant time whether a token belongs to the attempt. target is
// timer.TargetCompletes of the one of several targets to which it belongs, else 0.
func (c *CompletionTokens) Verify(
	f timer.FireID, attempt int32, token string,
) (target timer.TargetBits, ok bool) {
	index, sum, several := strings.Cut(token, ".")
	if several {
		i, err := strconv.ParseUint(index, 10, 8)
		if err != nil || i >= timer.MaxTargets {
			return 0, false
		}
		target, index = timer.TargetCompletes<<i, "/"+index
	} else {
		index, sum = "", token
	}
	got, err := base64.RawURLEncoding.DecodeString(sum)
	if err != nil {
		return 0, false
	}
	for _, k := range c.keys {
		ok = hmac.Equal(got, c.sum(k, f, attempt, index)) || ok
	}
	return target, ok
}

// sum returns the HMAC of an attempt, and of the target that index names by its path; empty: the
// timer's only one.
func (c *CompletionTokens) sum(key []byte, f timer.FireID, attempt int32, index string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(
		"carillon/complete/" + f.String() + "/" + strconv.FormatInt(int64(attempt), 10) + index,
	))
	return h.Sum(nil)
}
