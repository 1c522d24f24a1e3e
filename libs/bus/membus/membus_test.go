package membus_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/bustest"
	"github.com/carillon-timer/carillon/libs/bus/membus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type broker struct{ *membus.Broker }

func (b broker) Open(t *testing.T) bus.Bus { return b.Bus(t.Name()) }

func (b broker) Kill(k bus.Bus) { k.(*membus.Bus).Kill() }

func TestContract(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Broker {
		b := membus.NewBroker(membus.Options{})
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return broker{b}
	})
}
