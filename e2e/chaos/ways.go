package chaos

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/clock"
)

// throughProxy adds, to the ports of a process, those by which the proxy before the endpoint passes
// calls on: it does not tell whose.
func (w *Environment) throughProxy(ports map[uint16]bool) (map[uint16]bool, error) {
	_, to, _ := net.SplitHostPort(w.rcv.Addr())
	own, err := cluster.OwnPortsTo(to)
	maps.Copy(ports, own)
	return ports, err
}

// eachLink walks over every way from a service to a server, and to the endpoint.
func (w *Environment) eachLink(
	do func(name string, p *cluster.Process, part cluster.Part, proxies []*cluster.Proxy) error,
) error {
	for _, r := range cluster.Roles() {
		p := w.replica(r, 0)
		for _, part := range []cluster.Part{cluster.MySQL, cluster.Redis, cluster.Pulsar} {
			proxies := w.links[p.Name][part]
			n, err := connections(proxies)
			if err != nil {
				return err
			}
			if n == 0 {
				w.printf("%s has no connection to %s", p.Name, part)
				continue
			}
			if err := do(fmt.Sprintf("%s and %s", r, part), p, part, proxies); err != nil {
				return err
			}
			if err := w.ctx.Err(); err != nil {
				return err
			}
		}
	}
	return do("executors and the endpoint", nil, "", []*cluster.Proxy{w.far})
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

// linksCut breaks each way for d. An executor without its database goes on calling until it no
// longer trusts its session, and cannot record what was answered: those calls come again.
func linksCut(d time.Duration) func(*Environment) error {
	return func(w *Environment) error {
		return w.eachLink(
			func(name string, p *cluster.Process, part cluster.Part, proxies []*cluster.Proxy) error {
				target := wayBack
				if p == nil {
					target = endpointBack
				}
				err := w.befall("no way between "+name, target, func(f *Fault) (string, error) {
					before, err := connections(proxies)
					if err != nil {
						return "", err
					}
					if before == 0 {
						return "", errors.New("there was no connection to break")
					}
					at := time.Now()
					for _, x := range proxies {
						x.Cut()
					}
					w.excuse(p, part, at)
					clock.Pause(w.ctx, d)
					after, err := connections(proxies)
					if err == nil && after > 0 {
						err = errors.New("connections survived")
					}
					err = errors.Join(err, heal(proxies))
					f.over()
					return fmt.Sprintf("%d connections broke", before), err
				})
				clock.Pause(w.ctx, 8*time.Second)
				return err
			},
		)
	}
}

// underway is how long after the cut of a way the receiver may still be busy with what had passed
// before. Nothing else arrives there meanwhile.
const underway = time.Second

// excuse enters what a cut that began at an instant explains: calls of an executor that has lost
// its database, and answers that the way to the endpoint lost.
func (w *Environment) excuse(p *cluster.Process, part cluster.Part, at time.Time) {
	switch {
	case p == nil:
		w.cut(ledger.Cut{At: at, Until: time.Now().Add(underway), Recording: w.recording()})
	case isExecutor(p) && part == cluster.MySQL:
		w.cut(ledger.Cut{At: at, Until: time.Now().Add(trusted), Recording: w.recording()})
	}
}

func linksSlow(d, by time.Duration) func(*Environment) error {
	return func(w *Environment) error {
		return w.eachLink(
			func(name string, _ *cluster.Process, _ cluster.Part, proxies []*cluster.Proxy) error {
				err := w.befall(
					fmt.Sprintf("%s more between %s", by, name),
					none,
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
						clock.Pause(w.ctx, d)
						f.over()
						return fmt.Sprintf("%d connections are slow", n), heal(proxies)
					},
				)
				clock.Pause(w.ctx, 5*time.Second)
				return err
			},
		)
	}
}
