// Package cluster runs Carillon for tests: as one all-in-one process, or as five services in
// several processes each over real servers. A story written against Cluster runs on either, and on
// what comes later.
//
// A runner ends what it started and nothing else: every process has its own group and dies with the
// test, even when that is killed.
package cluster
