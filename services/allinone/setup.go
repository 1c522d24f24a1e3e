package allinone

import (
	"context"
	"io"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/wiring"
)

// Setup runs the migrations and makes the topics of a cluster, and ends. It waits for servers that
// are away. Services do the same when they start; a step of its own keeps a roll-out from meeting
// an older schema, and lets services run with fewer rights.
func Setup(ctx context.Context, args []string, env process.Env, stdout, stderr io.Writer) error {
	return wiring.Prepare(ctx, "carillon setup", args, env, stdout, stderr)
}
