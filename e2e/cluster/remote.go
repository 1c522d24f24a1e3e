package cluster

import "os"

// NewRemote returns a replica that another program runs, such as a pod. It has addresses and
// metrics. It cannot be started or stopped, and has no log here.
func NewRemote(name, http, admin string) *Process {
	return &Process{Name: name, http: http, admin: admin, hasHTTP: http != "", log: os.DevNull}
}
