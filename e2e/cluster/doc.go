// Package cluster runs Carillon for tests: as one all-in-one process, or as several processes of
// each of the five services over real servers. A scenario that uses Cluster runs on each.
//
// A runner stops only what it started. Every process has its own group and ends with the test, even
// if the test is killed.
//
// Files:
//
//	cluster.go  a running deployment
//	runners.go  starts deployments
//	process.go  one replica
//	remote.go   a replica that another program runs
//	build.go    compiles the programs
//	servers.go  the servers of a deployment
//	testenv.go  servers by the environment
//	proxy.go    a TCP proxy
//	links.go    proxies between a process and its servers
//	metrics.go  reads metrics
//	ports.go    the local ports of a process
package cluster
