// Package wiring assembles programs. It reads settings, opens the parts that services need (store,
// bus, window, clock, planner, dispatcher), and creates the services. It passes them to the process
// that runs and stops them.
//
// There is one function per role. A service's own program is one role over real servers; the
// all-in-one is all roles over embedded parts. Neither roles nor services depend on the difference.
//
// Programs:
//
//	program.go   runs a program: settings, parts, services
//	roles.go     the roles other than the API: migrator, scheduler, trigger, executor
//	settings.go  the settings of all programs
//	checks.go    checks of settings that package config has not the means for
//	kit.go       the parts that a process has once
//
// What the parts are made of:
//
//	servers.go      MySQL, Redis and Pulsar
//	pulsarsetup.go  sets up Pulsar, also while the process runs
//	serverwatch.go  pings a server in the background
//	advice.go       what to do about an error of a server
//	embedded.go     the embedded store, bus and window
//	database.go   the store alone, for commands
//	keyring.go    the encryption keys
//	secrets.go    secrets that they cannot decrypt
//	peers.go      time zones, and the other processes
//	trace.go      tracing
//	testclock.go  moves the clock, for tests
//
// Services:
//
//	api.go      the API
//	signin.go   sign-in at an identity provider
//	keyless.go  protects an API without keys from web pages
//	callers.go  what makes calls, and the limits of apps
//	memory.go   listeners within the process
package wiring
