// Package testenv gives tests real servers: MySQL, Galera, Redis, Redis Cluster, Redis with Sentinel,
// Pulsar and a Pulsar cluster. Each test gets its own database, prefix or namespace, which is removed
// when the test ends. scripts/servers.sh starts the servers. The file that it writes sets the
// environment variables that locate them (CARILLON_TEST_MYSQL_DSN, CARILLON_TEST_REDIS_ADDRS, …).
//
// If a server is missing, the test is skipped with a message about what was not tested. If
// CARILLON_TEST_REQUIRE names the server, the test fails instead. CARILLON_TEST_REQUIRE is a
// comma-separated list of mysql, galera, redis, redis-cluster, redis-sentinel, pulsar,
// pulsar-cluster, python, oracles and chromium. redis includes redis-cluster and redis-sentinel;
// pulsar does not include pulsar-cluster. python is an interpreter with the stock Pulsar client,
// oracles are the programs that tests compare with. CI sets it.
//
// Files:
//
//	testenv.go       which servers there are, and skips without them
//	mysql.go         databases on MySQL
//	galera.go        databases on a Galera cluster
//	redis.go         prefixes on Redis, single, clustered or with sentinels
//	pulsar.go        namespaces on Pulsar
//	pulsarclient.go  a Python interpreter with the stock Pulsar client
//	tls.go           certificates of clients and servers
//	issuer.go        an OAuth2 server for Pulsar
//	openid.go        an OpenID provider of others
//	oracle.go        programs of others that tests compare with
//	proxy.go         a proxy that cuts or holds connections
//	concurrency.go   how many calls run at once
package testenv
