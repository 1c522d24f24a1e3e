// Package kube installs Carillon's chart on a Kubernetes and acts like operators and faults: it
// upgrades, tests, and deletes pods. It uses helm and kubectl with the cluster that KUBECONFIG
// names.
//
// Its tests, and the scenarios of package scenario on this runner, run if CARILLON_E2E_KUBE is set.
// scripts/kube/e2e.sh (make e2e-kube) boots a cluster and sets the variables. The tests must reach
// the addresses of pods and Services.
//
//	settings.go  what to install, from the environment
//	release.go   installs, upgrades and removes the chart
//	pods.go      the pods of a release: lists, deletes and waits for them
//	cluster.go   a release as the cluster of scenarios
package kube
