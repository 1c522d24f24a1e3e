package scenario

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// rpcReceiver implements the published gRPC service. Its first answer is that it is unavailable.
type rpcReceiver struct {
	carillonv1.UnimplementedCallbackServer

	mu    sync.Mutex
	got   []*carillonv1.DeliverRequest
	metas []metadata.MD
}

func (r *rpcReceiver) Deliver(
	ctx context.Context,
	q *carillonv1.DeliverRequest,
) (*carillonv1.DeliverResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	r.got, r.metas = append(r.got, q), append(r.metas, md)
	if len(r.got) == 1 {
		return nil, status.Error(codes.Unavailable, "unavailable at first")
	}
	return &carillonv1.DeliverResponse{Message: "thank you"}, nil
}

func (r *rpcReceiver) start(t *testing.T, host string) (addr string) {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	s := grpc.NewServer()
	carillonv1.RegisterCallbackServer(s, r)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-served)
	})
	return ln.Addr().String()
}

// TestAllTargetsReceiveFire checks one HTTP and one gRPC target. The gRPC one succeeds at the
// second attempt, and the HTTP one is called once.
func TestAllTargetsReceiveFire(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		host, _, err := net.SplitHostPort(env.rcv.Addr())
		require.NoError(t, err)
		rpc := new(rpcReceiver)
		byHTTP, byRPC := client.Post(
			env.rcv.URL("/all"),
		), client.Target{
			Kind: "grpc",
			URL:  "grpc://" + rpc.start(t, host),
			Body: "due",
		}
		byHTTP.Name, byRPC.Name, byRPC.Headers = "web", "rpc", map[string][]string{
			"X-Shop": {"4711"},
		}
		at := soon(5 * time.Second)
		tm, _, err := env.api.Create(t.Context(), client.NewTimer{
			App:      env.app,
			Name:     "all",
			Schedule: client.At(at),
			Targets:  []client.Target{byHTTP, byRPC},
			Mode:     "all",
			Status:   "active",
			Retry:    &client.Retry{Attempts: 3, Wait: "100ms"},
			Labels:   client.Labels{"shop": "4711"},
		})
		require.NoError(t, err)
		id := timer.FireID{Timer: tm.TimerID(), DueMS: at.UnixMilli()}
		f := env.waitFor(t, id, func(f *client.Fire) bool { return f.Status == "delivered" })
		require.EqualValues(t, 2, f.Attempts)
		require.Len(t, env.rcv.Of(id.Timer), 1)
		rpc.mu.Lock()
		defer rpc.mu.Unlock()
		require.Len(t, rpc.got, 2)
		for i, q := range rpc.got {
			require.Equal(t, id.String(), q.GetFireId())
			require.EqualValues(t, i+1, q.GetAttempt())
			require.Equal(t, at.UnixMilli(), q.GetDueMs())
			require.Equal(t, "due", string(q.GetBody()))
			require.Equal(t, map[string]string{"shop": "4711"}, q.GetLabels())
			require.Equal(t, []string{"4711"}, rpc.metas[i].Get("x-shop"))
			require.Equal(
				t,
				rpc.metas[0].Get("idempotency-key"),
				rpc.metas[i].Get("idempotency-key"),
			)
		}
		targets := make(map[string]int)
		for _, a := range f.AttemptLog {
			targets[a.Target]++
		}
		require.Equal(t, map[string]int{"web": 1, "rpc": 2}, targets)
	})
}

// TestAnyTargetReceivesFire checks that the second target is called in the same attempt if the
// first is unreachable.
func TestAnyTargetReceivesFire(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		gone, there := client.Post("http://127.0.0.1:1/gone"), client.Post(env.rcv.URL("/there"))
		gone.Name, there.Name = "gone", "there"
		at := soon(5 * time.Second)
		tm, _, err := env.api.Create(t.Context(), client.NewTimer{
			App:      env.app,
			Name:     "any",
			Schedule: client.At(at),
			Targets:  []client.Target{gone, there},
			Mode:     "any",
			Status:   "active",
		})
		require.NoError(t, err)
		id := timer.FireID{Timer: tm.TimerID(), DueMS: at.UnixMilli()}
		f := env.waitFor(t, id, func(f *client.Fire) bool { return f.Status == "delivered" })
		require.EqualValues(t, 1, f.Attempts)
		require.Len(t, f.AttemptLog, 2)
		require.Equal(t, "gone", f.AttemptLog[0].Target)
		require.Equal(t, "connect", f.AttemptLog[0].Failure)
		require.EqualValues(t, http.StatusOK, f.AttemptLog[1].StatusCode)
	})
}

// TestPulsarTopicTarget publishes to the deployment's own Pulsar, in a namespace that the operator
// allows. The API refuses other namespaces.
func TestPulsarTopicTarget(t *testing.T) {
	t.Parallel()
	r := runnerNamed("real")
	t.Run(r.name, func(t *testing.T) { t.Parallel(); runOnShared(t, r, pulsarTopicTarget) })
}

func pulsarTopicTarget(t *testing.T, env *environment) {
	t.Helper()
	topic := "persistent://" + openNamespace + "/" + env.app
	to := func(topic string) client.Target {
		return client.Target{
			Kind:    "pulsar",
			Body:    "due",
			Pulsar:  &client.PulsarTopic{Topic: topic, Key: "k"},
			Headers: map[string][]string{"X-Shop": {"4711"}},
		}
	}
	require.NoError(t, env.Servers().Listen(t.Context(), topic))
	at := soon(5 * time.Second)
	n := client.NewTimer{
		App:      env.app,
		Name:     "topic",
		Schedule: client.At(at),
		Target:   to(topic),
		Status:   "active",
	}
	tm, _, err := env.api.Create(t.Context(), n)
	require.NoError(t, err)
	id := timer.FireID{Timer: tm.TimerID(), DueMS: at.UnixMilli()}
	env.waitFor(t, id, func(f *client.Fire) bool { return f.Status == "delivered" })
	m, err := env.Servers().Received(t.Context(), topic)
	require.NoError(t, err)
	require.NotNil(t, m)
	require.Equal(t, "due", string(m.Payload))
	require.Equal(t, "4711", m.Properties["x-shop"])
	require.Equal(t, id.String(), m.Properties["carillon-fire-id"])

	s := env.Servers()
	for _, forbidden := range []string{"persistent://public/others/x", "persistent://" + s.PulsarTenant + "/" + s.PulsarNamespace + "/tasks-high"} {
		n.Name, n.Target = "forbidden", to(forbidden)
		_, _, err = env.api.Create(t.Context(), n)
		require.ErrorContains(t, err, "answer 422", forbidden)
		require.ErrorContains(t, err, "target.pulsar.topic", forbidden)
	}
}
