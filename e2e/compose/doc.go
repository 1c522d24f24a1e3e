// Package compose builds the images by deploy/Dockerfile, starts deploy/compose.yaml and does to it
// what its users and faults do: timers ring, a service is scaled and restarted, processes are
// killed, all of it is taken away. It uses docker as a user would, with whatever engine docker
// finds.
//
// Its test runs where CARILLON_E2E_COMPOSE is set: scripts/compose/e2e.sh (make e2e-compose) does,
// and starts an engine where none answers. It must run where ports that containers publish on the
// loopback are reachable.
package compose
