package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"

	"github.com/carillon-timer/carillon/libs/timer"
)

// CompletionTokens creates and verifies the tokens with which receivers complete accepted fires. A
// token is an HMAC over the fire and the attempt, so nothing is stored. It works once, because a
// fire is completed once.
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

// Token returns the token of an attempt.
func (c *CompletionTokens) Token(f timer.FireID, attempt int32) string {
	return base64.RawURLEncoding.EncodeToString(c.sum(c.keys[0], f, attempt))
}

// Verify returns in constant time whether a token belongs to the attempt.
func (c *CompletionTokens) Verify(f timer.FireID, attempt int32, token string) bool {
	got, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return false
	}
	found := false
	for _, k := range c.keys {
		found = hmac.Equal(got, c.sum(k, f, attempt)) || found
	}
	return found
}

func (c *CompletionTokens) sum(key []byte, f timer.FireID, attempt int32) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("carillon/complete/" + f.String() + "/" + strconv.FormatInt(int64(attempt), 10)))
	return h.Sum(nil)
}
