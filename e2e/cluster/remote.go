package cluster

import "os"

// NewRemote returns a replica that somebody else runs, such as a pod: it can be asked for its
// addresses and its metrics, and neither started nor stopped. Its log is kept elsewhere, too.
func NewRemote(name, http, admin string) *Process {
	return &Process{Name: name, http: http, admin: admin, hasHTTP: http != "", log: os.DevNull}
}
