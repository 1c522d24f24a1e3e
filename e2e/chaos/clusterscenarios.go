package chaos

import (
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// ClusterScenarios returns the scenarios on clusters of servers, in the order of their table.
func ClusterScenarios() []*Scenario {
	sharded := cluster.Redundancy{Sharded: true, Pulsar: true}
	onGalera := cluster.Redundancy{Galera: true}
	all := []*Scenario{
		{
			Name:     "cluster-broker",
			About:    "the broker of the tasks: SIGKILL, SIGSTOP for 30 s, all topics unloaded",
			Do:       sequence(killNode(brokers), freezeNode(brokers), drainBroker),
			Clusters: sharded,
		},
		{
			Name:     "cluster-bookie",
			About:    "a bookie: SIGKILL, SIGSTOP for 30 s",
			Do:       sequence(killNode(bookies), freezeNode(bookies)),
			Clusters: sharded,
		},
		{
			Name:     "cluster-bookie-disk",
			About:    "a bookie's disk is full for 30 s",
			Do:       fullNodeDisk(bookies, 30*time.Second),
			Clusters: sharded,
		},
		{
			Name:     "cluster-zookeeper",
			About:    "the leading ZooKeeper: SIGKILL, SIGSTOP for 30 s",
			Do:       sequence(killNode(zookeepers), freezeNode(zookeepers)),
			Clusters: sharded,
		},
		{
			Name:     "cluster-redis",
			About:    "Redis Cluster, a master with its slots: SIGKILL, SIGSTOP for 30 s",
			Do:       sequence(killNode(redisMasters), freezeNode(redisMasters)),
			Clusters: sharded,
		},
		{
			Name:  "sentinel",
			About: "Redis with Sentinel: SIGKILL of a sentinel; SIGKILL and SIGSTOP for 30 s of the master",
			Do: sequence(
				killNode(sentinels),
				killNode(sentinelMasters),
				freezeNode(sentinelMasters),
			),
			Clusters: cluster.Redundancy{Sentinel: true, Pulsar: true},
		},
		{
			Name:     "cluster-all",
			About:    "SIGKILL of one broker, bookie, ZooKeeper, Redis master and Galera node at once",
			Do:       killOneOfEach(brokers, bookies, zookeepers, redisMasters, galeraNodes),
			Clusters: cluster.Redundancy{Galera: true, Sharded: true, Pulsar: true},
		},
		{
			Name:  "cluster-partition",
			About: "one broker, bookie, ZooKeeper, Redis master and Galera node cut off for 30 s",
			Do: partition(
				30*time.Second, brokers, bookies, zookeepers, redisMasters, galeraNodes,
			),
			Clusters: cluster.Redundancy{Galera: true, Sharded: true, Pulsar: true},
		},
		{
			Name:  "cluster-quorum",
			About: "two of three bookies down for 20 s, then two of three ZooKeepers, then five of six Redis nodes",
			Do: sequence(
				loseQuorum(bookies),
				loseQuorum(zookeepers),
				loseQuorum(redisMasters),
			),
			Clusters: sharded,
		},
		{
			Name:     "cluster-rolling",
			About:    "rolling restart of the brokers, then of the bookies",
			Do:       sequence(rollNodes(brokers), rollNodes(bookies)),
			Clusters: sharded,
		},
		{
			Name:     "galera",
			About:    "Galera, the node that all write on: SIGKILL, SIGSTOP for 30 s",
			Do:       sequence(killNode(galeraNodes), freezeNode(galeraNodes)),
			Clusters: onGalera,
		},
		{
			Name:     "galera-quorum",
			About:    "two of three Galera nodes down for 20 s, then a rolling restart of all",
			Do:       sequence(loseQuorum(galeraNodes), rollNodes(galeraNodes)),
			Clusters: onGalera,
		},
		// The last: from then on the nodes run newer versions.
		{
			Name:     "cluster-upgrade",
			About:    "rolling upgrade of the ZooKeepers, bookies and brokers, the Redis nodes, and the Galera nodes",
			Do:       upgradeNodes(zookeepers, bookies, brokers, redisMasters, galeraNodes),
			Clusters: cluster.Redundancy{Galera: true, Sharded: true, Pulsar: true},
		},
	}
	for _, s := range all {
		s.NoRepeats = true
	}
	return all
}

// sequence returns a function that runs functions one after the other.
func sequence(all ...func(*Environment) error) func(*Environment) error {
	return func(env *Environment) error { return inSequence(env, all...) }
}
