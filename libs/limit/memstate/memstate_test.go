package memstate_test

import (
	"testing"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/limittest"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
)

func TestContract(t *testing.T) {
	t.Parallel()
	limittest.Run(t, func(*testing.T) limit.SharedState { return memstate.New(nil) })
}
