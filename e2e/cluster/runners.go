package cluster

import (
	"context"
	"fmt"
	"path/filepath"
)

// StartAllInOne runs `carillon dev` and waits until it is ready. Its data stays in Options.Dir over
// restarts.
func StartAllInOne(ctx context.Context, o Options) (Cluster, error) {
	p := newProcess(&o, "carillon", "carillon", true, []string{"dev"},
		map[string]string{"CARILLON_DATA_DIR": filepath.Join(o.Dir, "data")}, o.Env)
	g := &group{name: "allinone", procs: []*Process{p}, roles: make(map[Role][]*Process)}
	for _, r := range Roles() {
		g.roles[r] = g.procs
	}
	return g, g.start(ctx)
}

// StartReal runs the five services in their own processes over real servers and waits until all are
// ready.
func StartReal(ctx context.Context, o Options, s Servers) (Cluster, error) {
	g, err := prepareReal(o, s)
	if err != nil {
		return nil, err
	}
	return g, g.start(ctx)
}

// PrepareReal is StartReal without the start, for scenarios about starting.
func PrepareReal(o Options, s Servers) (Cluster, error) {
	return prepareReal(o, s)
}

func prepareReal(o Options, s Servers) (*group, error) {
	if o.Prepare != nil {
		if err := o.Prepare(&o, &s); err != nil {
			return nil, err
		}
	}
	g := &group{name: "real", servers: &s, roles: make(map[Role][]*Process)}
	for _, r := range Roles() {
		for i := range max(o.Replicas, 1) {
			var own map[string]string
			if o.ReplicaEnv != nil {
				own = o.ReplicaEnv(r, i)
			}
			p := newProcess(
				&o,
				fmt.Sprintf("%s-%d", r, i),
				"carillon-"+string(r),
				r == API,
				nil,
				s.Env(),
				o.Env,
				own,
			)
			g.procs = append(g.procs, p)
			g.roles[r] = append(g.roles[r], p)
		}
	}
	return g, nil
}
