// Package wiring assembles programs. It reads settings, opens the parts that services need (store,
// bus, window, clock, planner, dispatcher), and creates the services. It passes them to the process
// that runs and stops them.
//
// There is one function per role. A service's own program is one role over real servers; the
// all-in-one is all roles over embedded parts. Neither roles nor services depend on the difference.
package wiring
