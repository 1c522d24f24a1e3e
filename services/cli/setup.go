package cli

import (
	"context"
	"io"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/wiring"
)

// Setup runs the migrations, creates the topics of a cluster, and exits. It waits for servers that
// are unavailable. Services do the same when they start. A separate step lets a rollout start on
// the new schema, and lets services run with fewer privileges.
func Setup(ctx context.Context, args []string, env process.Env, stdout, stderr io.Writer) error {
	return wiring.Prepare(ctx, "carillon setup", args, env, stdout, stderr)
}
