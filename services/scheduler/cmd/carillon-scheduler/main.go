// Command carillon-scheduler runs the scheduler service over MySQL, Redis and Pulsar. -help lists
// its settings.
package main

import (
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/wiring"
)

func main() { process.Main("carillon-scheduler", wiring.Service(wiring.Scheduler())) }
