package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
)

const askTimeout = 5 * time.Second // for one question to a server

// pickOwner returns the broker that serves the first partition of the tasks.
func pickOwner(env *Environment, nodes []node) (node, error) {
	var owner struct{ BrokerURL string }
	s := env.directServers
	path := fmt.Sprintf(
		"/lookup/v2/topic/persistent/%s/%s/%s-partition-0",
		s.PulsarTenant,
		s.PulsarNamespace,
		bus.TasksNormal,
	)
	if err := env.pulsarAdmin(http.MethodGet, path, &owner); err != nil {
		return node{}, err
	}
	u, err := url.Parse(owner.BrokerURL)
	if err != nil {
		return node{}, fmt.Errorf("reading the address of a broker: %w", err)
	}
	for _, n := range nodes {
		if port, err := env.srv.nodePort(n); err == nil && port == u.Port() {
			return n, nil
		}
	}
	return node{}, fmt.Errorf("no broker has the address %s", owner.BrokerURL)
}

// pulsarAdmin sends a request without body to a path of the admin API, through the proxy.
func (env *Environment) pulsarAdmin(method, path string, out any) error {
	ctx, cancel := context.WithTimeout(env.ctx, 4*askTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, env.directServers.PulsarAdminURL+path, nil)
	if err != nil {
		return fmt.Errorf("asking Pulsar: %w", err)
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return fmt.Errorf("asking Pulsar: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("asking Pulsar: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("asking Pulsar: %s %s: %s: %s", method, path, resp.Status, b)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("asking Pulsar: %s %s: %w", method, path, err)
	}
	return nil
}

// pickLeader returns the ZooKeeper that leads.
func pickLeader(env *Environment, nodes []node) (node, error) {
	for _, n := range nodes {
		port, err := env.srv.nodePort(n)
		if err != nil {
			return node{}, err
		}
		if answer, err := ask(env.ctx, port, "srvr"); err == nil &&
			strings.Contains(answer, "Mode: leader") {
			return n, nil
		}
	}
	return node{}, errors.New("no ZooKeeper leads")
}

// ask sends a text to a port of this machine and returns what is answered until the connection ends.
func ask(ctx context.Context, port, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+port)
	if err != nil {
		return "", fmt.Errorf("asking a server: %w", err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", fmt.Errorf("asking a server: %w", err)
		}
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return "", fmt.Errorf("asking a server: %w", err)
	}
	b, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("asking a server: %w", err)
	}
	return string(b), nil
}

// pickMaster returns the master with the most keys.
func pickMaster(env *Environment, nodes []node) (node, error) {
	var best node
	most := int64(-1)
	for _, n := range nodes {
		port, err := env.srv.nodePort(n)
		if err != nil {
			return node{}, err
		}
		role, keys, err := redisRole(env.ctx, port)
		if err == nil && role == "master" && keys > most {
			best, most = n, keys
		}
	}
	if most <= 0 {
		return node{}, errors.New("no Redis master has keys")
	}
	return best, nil
}

// redisRole returns the role of a Redis server, and the number of its keys.
func redisRole(ctx context.Context, port string) (role string, keys int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	defer c.Close()
	info, err := c.Info(ctx, "replication").Result()
	if err != nil {
		return "", 0, fmt.Errorf("asking Redis: %w", err)
	}
	_, rest, _ := strings.Cut(info, "role:")
	role, _, _ = strings.Cut(rest, "\r\n")
	if keys, err = c.DBSize(ctx).Result(); err != nil {
		return "", 0, fmt.Errorf("asking Redis: %w", err)
	}
	return role, keys, nil
}

// drainBroker unloads every bundle of the deployment's namespace from its broker. The proof is that
// the brokers confirmed it. The owner of a topic may be the same afterwards.
func drainBroker(env *Environment) error {
	err := env.inject("all topics unloaded", unnoticedTarget, func(*Fault) (string, error) {
		s := env.directServers
		path := fmt.Sprintf("/admin/v2/namespaces/%s/%s/unload", s.PulsarTenant, s.PulsarNamespace)
		if err := env.pulsarAdmin(http.MethodPut, path, nil); err != nil {
			return "", err
		}
		return "the brokers unloaded the namespace " + s.PulsarNamespace, nil
	})
	clock.Pause(env.ctx, nodeRecoveryWait)
	return err
}
