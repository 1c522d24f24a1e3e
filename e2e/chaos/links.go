package chaos

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/clock"
)

// eachLink runs do for each connection from a service to a server, and for that to the endpoint.
func (env *Environment) eachLink(
	do func(name string, p *cluster.Process, dependency cluster.Dependency, proxies []*cluster.Proxy) error,
) error {
	for _, r := range cluster.Roles() {
		p := env.replica(r, 0)
		for _, dependency := range []cluster.Dependency{cluster.MySQL, cluster.Redis, cluster.Pulsar} {
			proxies := env.links[p.Name][dependency]
			n, err := connections(proxies)
			if err != nil {
				return err
			}
			if n == 0 {
				env.printf("%s has no connection to %s", p.Name, dependency)
				continue
			}
			if err := do(
				fmt.Sprintf("%s and %s", r, dependency),
				p,
				dependency,
				proxies,
			); err != nil {
				return err
			}
			if err := env.ctx.Err(); err != nil {
				return err
			}
		}
	}
	return do("executors and the endpoint", nil, "", []*cluster.Proxy{env.endpointProxy})
}

func connections(proxies []*cluster.Proxy) (int, error) {
	sum := 0
	for _, p := range proxies {
		n, err := p.Connections()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func heal(proxies []*cluster.Proxy) error {
	var err error
	for _, p := range proxies {
		err = errors.Join(err, p.Heal())
	}
	return err
}

// linksCut cuts each connection for d. An executor without database connection goes on calling
// until its lease validity ends, and cannot record the answers. Those calls repeat.
func linksCut(d time.Duration) func(*Environment) error {
	return func(env *Environment) error {
		return env.eachLink(
			func(name string, p *cluster.Process, dependency cluster.Dependency, proxies []*cluster.Proxy) error {
				target := linkTarget
				if p == nil {
					target = endpointTarget
				}
				err := env.inject(
					"no connection between "+name,
					target,
					func(f *Fault) (string, error) {
						before, err := connections(proxies)
						if err != nil {
							return "", err
						}
						if before == 0 {
							return "", errors.New("no connection to cut")
						}
						at := time.Now()
						for _, x := range proxies {
							x.Cut()
						}
						env.addLinkInterruption(p, dependency, at)
						clock.Pause(env.ctx, d)
						after, err := connections(proxies)
						if err == nil && after > 0 {
							err = errors.New("connections survived")
						}
						err = errors.Join(err, heal(proxies))
						f.markEnd()
						return fmt.Sprintf("%d connections broke", before), err
					},
				)
				clock.Pause(env.ctx, 8*time.Second)
				return err
			},
		)
	}
}

// receiverBusy is how long the receiver may still handle earlier calls after a cut. No other calls
// arrive meanwhile.
const receiverBusy = time.Second

// addLinkInterruption records the interruption by a cut that began at an instant. It covers calls
// of an executor without database connection, and answers lost on the way from the endpoint.
func (env *Environment) addLinkInterruption(
	p *cluster.Process,
	dependency cluster.Dependency,
	at time.Time,
) {
	switch {
	case p == nil:
		env.addInterruption(
			ledger.Interruption{
				At:        at,
				Until:     time.Now().Add(receiverBusy),
				Recording: env.recordTimeout(),
			},
		)
	case isExecutor(p) && dependency == cluster.MySQL:
		env.addInterruption(
			ledger.Interruption{
				At:        at,
				Until:     time.Now().Add(leaseValidity),
				Recording: env.recordTimeout(),
			},
		)
	}
}

func linksSlow(d, by time.Duration) func(*Environment) error {
	return func(env *Environment) error {
		return env.eachLink(
			func(name string, _ *cluster.Process, _ cluster.Dependency, proxies []*cluster.Proxy) error {
				err := env.inject(
					fmt.Sprintf("%s added between %s", by, name),
					noTarget,
					func(f *Fault) (string, error) {
						n, err := connections(proxies)
						if err != nil {
							return "", err
						}
						for _, x := range proxies {
							if err := x.Slow(by); err != nil {
								return "", err
							}
						}
						clock.Pause(env.ctx, d)
						f.markEnd()
						return fmt.Sprintf("%d connections are slow", n), heal(proxies)
					},
				)
				clock.Pause(env.ctx, 5*time.Second)
				return err
			},
		)
	}
}
