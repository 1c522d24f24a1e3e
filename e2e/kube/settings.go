package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// Settings say what to install, and how this machine and the cluster reach each other.
type Settings struct {
	Chart    string // directory
	Registry string // before the images' names
	Tag      string // of the images
	NextTag  string // of the images to upgrade to
	Host     string // this machine's address as pods reach it; timers' endpoints listen there
	API      string // address of the API from here; empty: its Service's address inside the cluster
	// OwnSecrets puts the servers' addresses and the keys into Secrets, as in production, instead
	// of values.
	OwnSecrets bool
}

// ErrAbsent means that Kubernetes is not requested.
var ErrAbsent = errors.New("no Kubernetes: CARILLON_E2E_KUBE is not set (make e2e-kube)")

// FromEnv reads the settings of a run, or returns ErrAbsent.
func FromEnv() (*Settings, error) {
	if os.Getenv("CARILLON_E2E_KUBE") == "" {
		return nil, ErrAbsent
	}
	root, err := cluster.Root()
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	s := &Settings{
		Chart: filepath.Join(root, "helm", "carillon"),
		API:   os.Getenv("CARILLON_E2E_API"),
	}
	var missing []string
	for name, to := range map[string]*string{
		"CARILLON_E2E_REGISTRY": &s.Registry, "CARILLON_E2E_TAG": &s.Tag, "CARILLON_E2E_NEXT_TAG": &s.NextTag, "CARILLON_E2E_HOST": &s.Host,
	} {
		if *to = os.Getenv(name); *to == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("CARILLON_E2E_KUBE also needs %s", strings.Join(missing, ", "))
	}
	return s, nil
}
