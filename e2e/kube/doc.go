// Package kube installs Carillon's chart on a Kubernetes and does to it what operators and faults
// do: upgrades, tests, deletes of pods. It uses helm and kubectl as an operator would, with
// whatever cluster KUBECONFIG names.
//
// Its tests, and the stories of package scenario on this runner, run where CARILLON_E2E_KUBE is
// set: scripts/kube/e2e.sh (make e2e-kube) boots a cluster of its own, and sets it and the rest.
// They must run where pods' and Services' addresses are reachable.
package kube
