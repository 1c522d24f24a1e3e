package signing_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/signing"
)

// A receiver computes the signature of id, timestamp and body by the secret, and compares.
func Example() {
	const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	key, err := signing.ParseKey(secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	signer, err := signing.NewSigner(key)
	if err != nil {
		fmt.Println(err)
		return
	}
	const id, body = "42-1767225600000", `{"bill": 4711}`
	timestamp, signature := signer.Sign(id, time.Unix(1_767_225_600, 0), body)

	shared, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, signing.PrefixHMAC))
	if err != nil {
		fmt.Println(err)
		return
	}
	mac := hmac.New(sha256.New, shared)
	mac.Write([]byte(id + "." + timestamp + "." + body))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	fmt.Println(timestamp, hmac.Equal([]byte(signature), []byte(want)))
	// Output: 1767225600 true
}

// A key does not show its text by accident.
func ExampleKey() {
	key, err := signing.NewKey(signing.Ed25519)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.Contains(fmt.Sprintf("%v %+v %s", key, key, key), signing.PrefixPrivate))
	fmt.Println(
		strings.HasPrefix(key.Reveal(), signing.PrefixPrivate),
		strings.HasPrefix(key.Public(), signing.PrefixPublic),
	)
	// Output:
	// false
	// true true
}
