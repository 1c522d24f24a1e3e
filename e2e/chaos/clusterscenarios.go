package chaos

import "time"

// ClusterScenarios returns the scenarios on clusters of servers, in the order of their table. MySQL
// is a single server there.
func ClusterScenarios() []*Scenario {
	const outage = 20 * time.Second
	all := []*Scenario{
		{
			Name:  "cluster-broker",
			About: "the broker of the tasks: SIGKILL, SIGSTOP for 30 s, all topics unloaded",
			Do:    sequence(killNode(brokers), freezeNode(brokers), drainBroker),
		},
		{
			Name:  "cluster-bookie",
			About: "a bookie: SIGKILL, SIGSTOP for 30 s",
			Do:    sequence(killNode(bookies), freezeNode(bookies)),
		},
		{
			Name:  "cluster-zookeeper",
			About: "the leading ZooKeeper: SIGKILL, SIGSTOP for 30 s",
			Do:    sequence(killNode(zookeepers), freezeNode(zookeepers)),
		},
		{
			Name:  "cluster-redis",
			About: "Redis Cluster, a master with its slots: SIGKILL, SIGSTOP for 30 s",
			Do:    sequence(killNode(redisMasters), freezeNode(redisMasters)),
		},
		{
			Name:  "sentinel",
			About: "Redis with Sentinel: SIGKILL of a sentinel; SIGKILL and SIGSTOP for 30 s of the master",
			Do: sequence(
				killNode(sentinels),
				killNode(sentinelMasters),
				freezeNode(sentinelMasters),
			),
			Sentinel: true,
		},
		{
			Name:  "cluster-all",
			About: "SIGKILL of one broker, bookie, ZooKeeper and Redis master at once",
			Do:    killOneOfEach(brokers, bookies, zookeepers, redisMasters),
		},
		{
			Name:  "cluster-quorum",
			About: "two of three bookies down for 20 s, then two of three ZooKeepers",
			Do:    sequence(loseQuorum(bookies, outage), loseQuorum(zookeepers, outage)),
		},
		{
			Name:  "cluster-rolling",
			About: "rolling restart of the brokers, then of the bookies",
			Do:    sequence(rollNodes(brokers), rollNodes(bookies)),
		},
	}
	for _, s := range all {
		s.Cluster, s.NoRepeats = true, true
	}
	return all
}

// sequence returns a function that runs functions one after the other.
func sequence(all ...func(*Environment) error) func(*Environment) error {
	return func(env *Environment) error { return inSequence(env, all...) }
}
