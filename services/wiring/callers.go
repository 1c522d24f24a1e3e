package wiring

import (
	"context"
	"fmt"
	"maps"

	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/limit/redisstate"
	"github.com/carillon-timer/carillon/libs/selfcheck"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
)

// topicPublisher publishes callbacks with a Pulsar client.
type topicPublisher struct{ *pulsarbus.ExternalPublisher }

func (t topicPublisher) PublishTo(ctx context.Context, m callback.TopicMessage) error {
	return t.Publish(ctx, pulsarbus.ExternalMessage(m)) //nolint:wrapcheck // it says which topic
}

// addCallers gives an executor its callers, one for each kind of target, and its limits.
func (k *Kit) addCallers(o *executor.Options) error {
	if k.Keyring != nil {
		secrets, err := k.watchSecrets()
		if err != nil {
			return err
		}
		o.Opener = secrets
		tokens, err := callback.NewCompletionTokens(k.Keyring.Derive("completion")...)
		if err != nil {
			return fmt.Errorf("making completion tokens: %w", err)
		}
		o.Tokens = tokens
	}
	callers, err := k.callers()
	if err != nil {
		return err
	}
	callers = maps.Clone(callers)
	callers[timer.KindCanary] = selfcheck.NewCaller(k.Registry)
	o.Egress, o.Caller = k.Egress, callers
	return k.limits(o)
}

// callers returns the callers of this process: those of its executor, and of the test calls of its
// api. They share connections.
func (k *Kit) callers() (callback.Callers, error) {
	if k.called != nil {
		return k.called, nil
	}
	net := callback.NetOptions{
		Egress:         k.Egress,
		AllowInsecure:  k.Settings.Callback.AllowInsecure,
		ReservedHeader: k.Settings.Gateway.TrustHeader,
	}
	if k.Keyring != nil {
		secrets, err := k.watchSecrets()
		if err != nil {
			return nil, err
		}
		net.Secrets = secrets
	}
	own, err := pulsarConfig(&k.Settings.Pulsar, k.Log)
	if err != nil {
		return nil, err
	}
	external, err := pulsarbus.NewExternalPublisher(own, k.logger("callbacks"))
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is about
	}
	k.Process.OnClose(
		"pulsar callbacks",
		func(context.Context) error { external.Close(); return nil },
	)
	callers, closeCallers, err := callback.NewCallers(callback.CallerOptions{
		NetOptions:   net,
		Publisher:    topicPublisher{external},
		Topics:       k.Topics,
		OwnNamespace: k.Settings.Pulsar.Tenant + "/" + k.Settings.Pulsar.Namespace,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is about
	}
	k.Process.OnClose("callbacks", func(context.Context) error { closeCallers(); return nil })
	k.called = callers
	return callers, nil
}

// limits creates the limits of apps, which share state through Redis where it is configured, and
// the circuit breakers of endpoints.
func (k *Kit) limits(o *executor.Options) (err error) {
	var state limit.SharedState = memstate.New(nil)
	if r := &k.Settings.Redis; len(r.Addrs) > 0 {
		dial, err := redisDial(r, k.Log)
		if err != nil {
			return err
		}
		shared, err := redisstate.New(
			redisstate.Options{
				Addrs:    r.Addrs,
				Dial:     dial,
				Username: r.Username,
				Password: r.Password.Reveal(),
				Prefix:   r.Prefix,

				SentinelMaster:   r.Sentinel.Master,
				SentinelUsername: r.Sentinel.Username,
				SentinelPassword: r.Sentinel.Password.Reveal(),
			},
		)
		if err != nil {
			return fmt.Errorf("redis-addrs: %w", err)
		}
		k.Process.OnClose("limits", func(context.Context) error { return shared.Close() })
		state = shared
	}
	o.Limits, err = limit.New(limit.Options{
		SharedState: state,
		Executor:    k.IDs.Next().String(),
		Share:       o.MaxCalls / 2, //nolint:mnd // an app gets half
		Calls:       o.MaxCalls,
		Now:         k.Clock.Now,
		Logger:      k.logger("limits"),
		Registerer:  k.Registry,
	})
	if err != nil {
		return fmt.Errorf("making the limits: %w", err)
	}
	if o.Breakers, err = limit.NewBreakers(
		limit.BreakerOptions{Now: k.Clock.Now, Registerer: k.Registry},
	); err != nil {
		return fmt.Errorf("making the breakers: %w", err)
	}
	return nil
}
