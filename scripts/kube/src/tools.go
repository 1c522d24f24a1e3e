//go:build tools

// Package tools keeps the requirements of programs that are built from this module without being
// imported.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
