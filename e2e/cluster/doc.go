// Package cluster runs Carillon for tests: as one all-in-one process, or as several processes of
// each of the five services over real servers. A scenario that uses Cluster runs on each.
//
// A runner stops only what it started. Every process has its own group and ends with the test, even
// if the test is killed.
package cluster
