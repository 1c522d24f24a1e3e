// Command carillon is the command line tool: the all-in-one process, and what goes around a
// cluster.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/allinone"
)

const usage = `carillon <command> [flags]

  dev      run everything in one process: SQLite in ./data, in-memory bus and window
  setup    run the migrations and make the topics of a cluster, then end
  topics   look at a cluster's topics: what waits, who reads, what the messages say; make failed fires again
  try      make a timer of a cluster ring here, and see it recorded
  ring     run an endpoint that prints each callback
  reseal   encrypt the secrets in the database anew, under a new sealing key
  version  say which version this is

  admin-key, encryption-key   print a fresh key

carillon <command> -help lists the flags.
`

func main() { process.Main("carillon", run) }

func run(ctx context.Context, args []string, env process.Env, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return &config.Problems{List: []string{usage}}
	}
	switch command, rest := args[0], args[1:]; command {
	case "dev":
		return allinone.Dev(ctx, rest, env, stdout, stderr)
	case "setup":
		return allinone.Setup(ctx, rest, env, stdout, stderr)
	case "topics":
		return allinone.Topics(ctx, rest, env, stdout, stderr)
	case "try":
		return allinone.Try(ctx, rest, env, stdout, stderr)
	case "ring":
		return allinone.EchoServer(ctx, rest, env, stdout, stderr)
	case "reseal":
		return allinone.Reencrypt(ctx, rest, env, stdout, stderr)
	case "admin-key":
		return allinone.AdminKey(ctx, rest, env, stdout, stderr)
	case "encryption-key":
		return allinone.EncryptionKey(ctx, rest, env, stdout, stderr)
	case "version", "-version", "--version":
		_, err := fmt.Fprintln(stdout, process.Version())
		return err
	case "help", "-help", "--help", "-h":
		_, err := fmt.Fprint(stdout, usage)
		return err
	default:
		return &config.Problems{
			List: []string{fmt.Sprintf("carillon: no command %q", command), usage},
		}
	}
}
