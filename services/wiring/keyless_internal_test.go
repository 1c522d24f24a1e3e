package wiring

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
)

// TestSettingsOfCallersRequireKeys checks that auth=auto asks for keys as soon as a setting
// says who may call.
func TestSettingsOfCallersRequireKeys(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *Settings){
		"admin-key":      func(s *Settings) { s.API.AdminKey = "k" },
		"admin-key-file": func(s *Settings) { s.API.AdminKeyFile = "f" },
		"api-keys-file":  func(s *Settings) { s.API.KeysFile = "f" },
		"trust-header":   func(s *Settings) { s.Gateway.TrustHeader = "X-Caller" },
		"oidc-issuer":    func(s *Settings) { s.OIDC.Issuer = "https://id.example.com" },
		"http-addr":      func(s *Settings) { s.HTTP.Addr = ":8080" },
	} {
		s := &Settings{KeylessOnLoopback: true}
		s.HTTP.Addr, s.API.Auth = "127.0.0.1:8080", config.AuthAuto
		require.True(t, s.keyless())
		change(s)
		require.False(t, s.keyless(), name)
	}
}
