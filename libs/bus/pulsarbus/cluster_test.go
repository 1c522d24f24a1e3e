package pulsarbus_test

import (
	"path"
	"slices"
	"testing"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/bustest"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// TestContractThroughProxy runs the contract on a cluster whose clients see only Pulsar's proxy.
func TestContractThroughProxy(t *testing.T) {
	t.Parallel()
	testenv.PulsarCluster(t) // without a cluster, one skip for all
	bustest.Run(t, func(t *testing.T) bustest.Broker {
		proxy, _ := testenv.PulsarCluster(t)
		return newBrokerAt(proxy)
	})
}

// TestContractOnACluster runs the contract with the addresses of all brokers of a cluster. A broker
// sends the clients to the owners of the topics.
func TestContractOnACluster(t *testing.T) {
	t.Parallel()
	testenv.PulsarCluster(t) // without a cluster, one skip for all
	// These would have to cut connections to addresses that the brokers name.
	kill := []string{"B1_consumers_die", "B2_not_confirmed", "B7_kill"}
	bustest.Run(t, func(t *testing.T) bustest.Broker {
		_, brokers := testenv.PulsarCluster(t)
		if slices.Contains(kill, path.Base(t.Name())) {
			t.Skip(
				"SKIPPED, UNTESTED: a killed process without a proxy; TestContractThroughProxy tests it",
			)
		}
		return directBroker{t, brokers}
	})
}

// directBroker is a namespace whose buses connect to the brokers themselves.
type directBroker struct {
	t     *testing.T
	place testenv.PulsarNamespace
}

func (b directBroker) Open(t *testing.T) bus.Bus { return open(t, b.place, b.place.URL) }

// Kill is not possible here.
func (b directBroker) Kill(bus.Bus) { b.t.Error("a test that kills must be skipped") }
