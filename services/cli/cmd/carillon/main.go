// Command carillon is the command line tool: the all-in-one process, and the commands for a
// cluster.
package main

import (
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/cli"
)

func main() { process.Main("carillon", cli.Run) }
