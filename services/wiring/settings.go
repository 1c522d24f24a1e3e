package wiring

import "github.com/carillon-timer/carillon/libs/config"

// Settings are the settings of all programs; each program uses the parts it needs.
type Settings struct {
	HTTP       config.HTTP
	Admin      config.Admin
	Log        config.Log
	Shutdown   config.Shutdown
	Data       config.Data
	MySQL      config.MySQL
	Redis      config.Redis
	Pulsar     config.Pulsar
	API        config.API
	OIDC       config.OIDC
	Gateway    config.Gateway
	Timing     config.Timing
	Retention  config.Retention
	Callback   config.Callback
	Encryption config.Encryption
	Executor   config.Executor
	Canary     config.Canary
	Tracing    config.Tracing
	Testing    config.Testing
	Zones      config.Zones

	KeylessOnLoopback bool // auth=auto requires no keys on a loopback address: carillon dev
}

// common returns the settings of every program that runs services.
func (s *Settings) common() []config.Part {
	return []config.Part{
		&s.Admin, &s.Log, &s.Shutdown, &s.Timing, &s.Canary, &s.Tracing, &s.Testing, &s.Zones,
	}
}

// servers returns the settings of programs over real servers.
func (s *Settings) servers() []config.Part {
	return []config.Part{&s.MySQL, &s.Redis, &s.Pulsar}
}

// keyless returns whether only this machine reaches the API, and without a key. Then timers may
// also call this machine, because any caller there could do the same itself.
// Settings of keys, of a gateway or of an identity provider mean that callers are to be known.
func (s *Settings) keyless() bool {
	a := &s.API
	asked := a.AdminKey != "" || a.AdminKeyFile != "" || a.KeysFile != "" ||
		s.Gateway.TrustHeader != "" || s.OIDC.Issuer != ""
	return s.KeylessOnLoopback && loopback(s.HTTP.Addr) &&
		(a.Auth == config.AuthOff || a.Auth == config.AuthAuto && !asked)
}
