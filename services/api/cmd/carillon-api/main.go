// Command carillon-api runs the api service over MySQL, Redis and Pulsar. -help lists its settings.
package main

import (
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/wiring"
)

func main() { process.Main("carillon-api", wiring.Service(wiring.API())) }
