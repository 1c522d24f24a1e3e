package cli_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/cli"
)

// asProgram makes the test binary be the command itself, for tests of whole processes.
const asProgram = "TEST_AS_CARILLON"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		process.Main("carillon", cli.Run)
	}
	// fasthttp's cleaner of idle workers ends up to ten seconds after its server.
	goleak.VerifyTestMain(
		m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}
