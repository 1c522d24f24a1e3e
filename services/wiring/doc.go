// Package wiring puts programs together: it reads settings, opens the parts that services are made
// of (store, bus, window, clock, planner, dispatcher), makes the services, and hands them to the
// process that runs and stops them.
//
// There is one function per role. A service's own program is one role over real servers; the
// all-in-one is all of them over embedded parts. Neither the roles nor the services can tell the
// difference.
package wiring
