// Package compose builds the images by deploy/Dockerfile, starts deploy/compose.yaml, and exercises
// the deployment: timers are called, a service is scaled and restarted, processes are killed, and
// everything is removed. It uses the docker command with any engine that docker finds.
//
// Its test runs if CARILLON_E2E_COMPOSE is set, as scripts/compose/e2e.sh (make e2e-compose) does.
// That script starts an engine if none answers. The test must reach published container ports on
// the loopback.
//
//	project.go  runs deploy/compose.yaml beside other projects, and removes everything
//	image.go    builds images, and reads what they contain
//	docker.go   runs docker commands
package compose
