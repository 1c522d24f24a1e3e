// Package config reads the settings of a program: defaults, then a YAML file, then the environment,
// then flags; the later source wins. Every setting has one name: flag -http-addr, environment
// CARILLON_HTTP_ADDR, and http-addr in the file (or addr below http). Each component has a struct
// with its defaults and a Validate method, and a program uses the structs it needs.
//
// A file may contain settings of other components, because one file serves five services, but no
// unknown settings. All problems of all sources are reported at once, each with the setting and the
// source of its value. Secrets have types of their own, so that neither -print-config nor a log
// line shows one by accident.
//
// How settings are read:
//
//	set.go      the settings of a program, from all sources
//	file.go     the YAML file
//	unknown.go  refuses unknown variables
//	lists.go    settings with several values
//	tri.go      booleans that may be left to the program
//	secret.go   texts that are never shown
//
// The settings of components:
//
//	parts.go     of every program: addresses, log, shutdown, data directory
//	servers.go   MySQL, Redis and Pulsar
//	services.go  timing, time zones, retention, executors, the canary, tracing; their bounds
//	api.go       the API
//	gateway.go   a gateway that names callers
//	oidc.go      sign-in by OpenID Connect
//	callback.go  what timers may call, and the keys that encrypt secrets
package config
