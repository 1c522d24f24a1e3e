// Command carillon is the command line tool: the all-in-one process, and the commands for a
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

  dev        run everything in one process: SQLite in ./data, in-memory bus and window
  setup      run the migrations and create the topics of a cluster, then exit
  topics     show a cluster's topics: backlogs, subscriptions, messages; redrive failed fires
  try        create a timer in a cluster that calls this process, and check that the call is recorded
  echo       run an endpoint that prints each call
  reencrypt  encrypt the secrets in the database under a new encryption key
  version    print the version

  admin-key, encryption-key   print a new key

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
	case "echo":
		return allinone.EchoServer(ctx, rest, env, stdout, stderr)
	case "reencrypt":
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
