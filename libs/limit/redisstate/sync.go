package redisstate

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Sync implements limit.SharedState, with one pipeline for each server of a cluster. The client's own
// pipeline over all servers runs scripts again, and fails all of them, if one server does not
// answer. So only demands that were not run go into one.
func (l *SharedState) Sync(
	ctx context.Context,
	executor string,
	demands []limit.Demand,
) ([]limit.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	servers, err := l.servers(ctx, demands)
	if err != nil {
		return nil, timer.Unavailable("sharing limits through Redis", err)
	}
	grants := make([]limit.Grant, len(demands))
	var sending sync.WaitGroup
	for server, of := range servers {
		pipe := server.Pipeline()
		sending.Go(func() { l.send(ctx, pipe, executor, demands, grants, of, syncScript.EvalSha) })
	}
	sending.Wait()
	var again []int
	for i := range grants {
		if isNotRun(grants[i].Err) {
			again = append(again, i)
		}
	}
	if len(again) > 0 {
		l.send(ctx, l.client.Pipeline(), executor, demands, grants, again, syncScript.Eval)
	}
	failed := 0
	for i := range grants {
		if err := grants[i].Err; err != nil {
			grants[i] = limit.Grant{Err: timer.Unavailable("sharing limits through Redis", err)}
			failed++
		}
	}
	if failed > 0 && failed == len(grants) {
		return nil, grants[0].Err
	}
	return grants, nil
}

// servers returns the indexes of the demands by the server that has the keys of their apps.
func (l *SharedState) servers(
	ctx context.Context,
	demands []limit.Demand,
) (map[redis.UniversalClient][]int, error) {
	out := make(map[redis.UniversalClient][]int)
	cluster, ok := l.client.(*redis.ClusterClient)
	for i := range demands {
		server := l.client
		if ok {
			// It knows the slots of all servers, or none.
			master, err := cluster.MasterForKey(ctx, l.key(demands[i].App))
			if err != nil {
				return nil, err //nolint:wrapcheck // the caller says what was asked
			}
			server = master
		}
		out[server] = append(out[server], i)
	}
	return out, nil
}

// isNotRun reports whether a server has refused to run a script. A restarted or new one does not know
// its hash. In a cluster another one has the key, or is about to get it.
func isNotRun(err error) bool {
	return redis.HasErrorPrefix(err, "NOSCRIPT") || redis.HasErrorPrefix(err, "MOVED") ||
		redis.HasErrorPrefix(err, "ASK")
}

// send sends the demands with the given indexes, and sets their grants. eval runs the script by its
// hash or by its text.
func (l *SharedState) send(
	ctx context.Context,
	pipe redis.Pipeliner,
	executor string,
	demands []limit.Demand,
	grants []limit.Grant,
	of []int,
	eval func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd,
) {
	cmds := make([]*redis.Cmd, len(of))
	for n, i := range of {
		cmds[n] = eval(ctx, pipe, []string{l.key(demands[i].App)}, args(executor, &demands[i])...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for n, i := range of {
		reply, err := cmds[n].Int64Slice()
		if err == nil {
			grants[i], err = grant(reply)
		}
		grants[i].Err = err
	}
}

// args are the arguments of the script for a demand.
func args(executor string, w *limit.Demand) []any {
	args := []any{
		executor,
		strconv.FormatFloat(w.Settings.Rate, 'f', -1, 64),
		w.Settings.Burst,
		w.Tokens,
		w.Settings.Concurrent,
		w.InUse,
		w.Slots,
		limit.SlotTTL.Microseconds(),
		limit.SlotRotation.Microseconds(),
	}
	for _, n := range w.Waiting {
		args = append(args, n)
	}
	for _, n := range limit.DefaultWeights() {
		args = append(args, n)
	}
	return append(args, limit.WaitTTL.Microseconds(), w.Starts)
}

// grant reads a reply of the script.
func grant(reply []int64) (limit.Grant, error) {
	if len(reply) < 4 {
		return limit.Grant{}, fmt.Errorf("unexpected reply of the limit script: %v", reply)
	}
	g := limit.Grant{
		Tokens:    int(reply[0]),
		NextToken: time.Duration(reply[1]) * time.Microsecond,
		Slots:     int(reply[2]),
		Executors: int(reply[3]),
	}
	for _, turn := range reply[4:] {
		if turn < 0 || turn >= int64(limit.Priorities) {
			return limit.Grant{}, fmt.Errorf("unexpected reply of the limit script: %v", reply)
		}
		g.Order = append(g.Order, limit.Priority(turn))
	}
	return g, nil
}
