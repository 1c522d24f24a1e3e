package signing_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/signing"
)

func parse(t testing.TB, text string) signing.Key {
	t.Helper()
	k, err := signing.ParseKey(text)
	require.NoError(t, err)
	return k
}

func newKey(t testing.TB, kind signing.Kind) signing.Key {
	t.Helper()
	k, err := signing.NewKey(kind)
	require.NoError(t, err)
	return k
}

func signer(t testing.TB, keys ...signing.Key) *signing.Signer {
	t.Helper()
	s, err := signing.NewSigner(keys...)
	require.NoError(t, err)
	return s
}

// Examples published by the authors of the scheme, who test their own implementations with them.
const (
	exampleID      = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	exampleAt      = 1614265330
	exampleBody    = `{"test": 2432232314}`
	exampleSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	exampleHMAC    = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	exampleKey     = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
	exampleEd25519 = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
)

func TestTheExamplesOfTheScheme(t *testing.T) {
	t.Parallel()
	at := time.Unix(exampleAt, 999_000_000)
	timestamp, signature := signer(
		t,
		parse(t, exampleSecret),
		parse(t, exampleKey),
	).Sign(exampleID, at, exampleBody)
	require.Equal(t, "1614265330", timestamp)
	require.Equal(t, exampleHMAC+" "+exampleEd25519, signature)
	_, signature = signer(
		t,
		parse(t, exampleKey),
		parse(t, exampleSecret),
	).Sign(exampleID, at, exampleBody)
	require.Equal(t, exampleEd25519+" "+exampleHMAC, signature)
}

// TestKeysOfRFC8032 uses the first test vectors of RFC 8032, 7.1. Messages of the scheme are never
// empty, so only the key pair is compared.
func TestKeysOfRFC8032(t *testing.T) {
	t.Parallel()
	seed := []byte(
		"\x9d\x61\xb1\x9d\xef\xfd\x5a\x60\xba\x84\x4a\xf4\x92\xec\x2c\xc4\x44\x49\xc5\x69\x7b\x32\x69\x19\x70\x3b\xac\x03\x1c\xae\x7f\x60",
	)
	public := "\xd7\x5a\x98\x01\x82\xb1\x0a\xb7\xd5\x4b\xfe\xd3\xc9\x64\x07\x3a\x0e\xe1\x72\xf3\xda\xa6\x23\x25\xaf\x02\x1a\x68\xf7\x07\x51\x1a"
	k := parse(t, "whsk_"+base64.StdEncoding.EncodeToString(seed))
	require.Equal(t, "whpk_"+base64.StdEncoding.EncodeToString([]byte(public)), k.Public())
	require.Equal(t, k.Reveal(), parse(t, k.Reveal()).Reveal(), "of 64 bytes as of the seed")
	_, signature := signer(t, k).Sign("a", time.Unix(1, 0), "b")
	sig, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signature, "v1a,"))
	require.NoError(t, err)
	require.True(t, ed25519.Verify([]byte(public), []byte("a.1.b"), sig))
}

func TestEveryLiveKeyOfBothKindsSigns(t *testing.T) {
	t.Parallel()
	_, signature := signer(
		t,
		newKey(t, signing.HMAC),
		newKey(t, signing.Ed25519),
		newKey(t, signing.HMAC),
		newKey(t, signing.Ed25519),
	).Sign("a", time.Unix(1, 0), "b")
	require.Regexp(t, `^v1,\S+ v1a,\S+ v1,\S+ v1a,\S+$`, signature)
}

func TestTheGoLibraryVerifies(t *testing.T) {
	t.Parallel()
	old, fresh := newKey(t, signing.HMAC), newKey(t, signing.HMAC)
	s := signer(t, old, fresh)
	for _, body := range []string{"", "{}", strings.Repeat("ß\x00\xff", 50_000), exampleBody} {
		timestamp, signature := s.Sign("42-7", time.Now(), body)
		h := http.Header{}
		h.Set(signing.HeaderID, "42-7")
		h.Set(signing.HeaderTimestamp, timestamp)
		h.Set(signing.HeaderSignature, signature)
		for _, k := range []signing.Key{old, fresh} {
			wh, err := standardwebhooks.NewWebhook(k.Reveal())
			require.NoError(t, err)
			require.NoError(t, wh.Verify([]byte(body), h))
			require.Error(t, wh.Verify([]byte(body+" "), h))
		}
		stranger, err := standardwebhooks.NewWebhook(newKey(t, signing.HMAC).Reveal())
		require.NoError(t, err)
		require.Error(t, stranger.Verify([]byte(body), h))
	}
}

func TestBadKeys(t *testing.T) {
	t.Parallel()
	b64 := base64.StdEncoding.EncodeToString
	wrongPair := append(make([]byte, 32), make([]byte, 32)...)
	for _, text := range []string{
		"", "whsec_", "whsec_###", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + b64(make([]byte, 23)), "whsec_" + b64(make([]byte, 65)),
		"whsk_" + b64(make([]byte, 31)), "whsk_" + b64(wrongPair), "whpk_" + b64(make([]byte, 32)), "whsk_###",
	} {
		_, err := signing.ParseKey(text)
		require.Error(t, err, text)
		if len(text) > 8 {
			require.NotContains(t, err.Error(), text[6:])
		}
	}
	_, err := signing.NewKey("rsa")
	require.ErrorContains(t, err, "rsa")
	_, err = signing.NewSigner()
	require.Error(t, err)
	_, err = signing.NewSigner(signing.Key{})
	require.Error(t, err)
	k := newKey(t, signing.HMAC)
	_, err = signing.NewSigner(k, k, k, k, k)
	require.ErrorContains(t, err, "1 to 4")
}

func TestAKeyNeverShowsItself(t *testing.T) {
	t.Parallel()
	for _, kind := range []signing.Kind{signing.HMAC, signing.Ed25519} {
		k := newKey(t, kind)
		require.Equal(t, kind, k.Kind())
		require.False(t, k.IsZero())
		holder := struct {
			Key    signing.Key
			hidden signing.Key
		}{k, k}
		var log strings.Builder
		logger := zerolog.New(&log)
		logger.Info().Interface("a", holder).Stringer("b", k).Any("c", k).Msg("x")
		marshalled, err := json.Marshal(holder)
		require.NoError(t, err)
		shown := log.String() + string(marshalled)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T", "%p"} {
			shown += fmt.Sprintf(verb+verb+verb, k, holder, &holder)
		}
		text := k.Reveal()
		require.NotContains(t, shown, text[6:20])
		raw, err := base64.StdEncoding.DecodeString(text[strings.Index(text, "_")+1:])
		require.NoError(t, err)
		require.NotContains(t, strings.ToLower(shown), fmt.Sprintf("%x", raw[:6]))
		require.NotContains(t, shown, strings.Trim(fmt.Sprintf("%d", raw[:6]), "[]"))
		require.Contains(t, shown, "REDACTED")
	}
	require.Empty(t, signing.Key{}.String()+signing.Key{}.Reveal()+signing.Key{}.Public())
	require.True(t, signing.Key{}.IsZero())
}

func TestASignerIsSharedByManyCalls(t *testing.T) {
	t.Parallel()
	s := signer(t, newKey(t, signing.HMAC), newKey(t, signing.Ed25519))
	at := time.Unix(exampleAt, 0)
	body := strings.Repeat("x", 10_000)
	_, want := s.Sign("id", at, body)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				if _, got := s.Sign("id", at, body); got != want {
					t.Error("signatures differ")
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkSign(b *testing.B) {
	for _, kind := range []signing.Kind{signing.HMAC, signing.Ed25519} {
		b.Run(string(kind), func(b *testing.B) {
			s := signer(b, newKey(b, kind))
			b.ReportAllocs()
			for b.Loop() {
				s.Sign("42-1767225600123", time.Unix(exampleAt, 0), exampleBody)
			}
		})
	}
}
