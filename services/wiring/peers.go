package wiring

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/peers"
	"github.com/carillon-timer/carillon/libs/zone"
)

// openZones opens the configured time zones and makes them the process's zones. No zone may be
// loaded before. The error is a *config.Problems.
func (s *Settings) openZones() (*zone.Database, error) {
	d, err := openTZData(s.Zones.File)
	if err != nil {
		return nil, config.Problem(err)
	}
	zone.Use(d)
	return d, nil
}

// sharedSettings are those that must be the same in all processes that have them.
var sharedSettings = []string{
	"pulsar-tenant",
	"pulsar-namespace",
	"pulsar-partitions",
	"redis-prefix",
	"zone",
	"expand-ahead",
	"dispatch-lead",
	"canary",
	"retention",
	"audit-retention",
	"one-shot-retention",
	"trace-keep",
	"callback-allow",
	"callback-allow-private",
	"callback-allow-insecure",
	"callback-topics",
	"callback-pulsar-urls",
	"trust-header",
}

// watchPeers registers the process, with its time zones, before anything is planned with them. From
// then on it compares itself with other processes. The process is unregistered after all planning
// has stopped.
func (k *Kit) watchPeers(ctx context.Context) (err error) {
	o := peers.Options{
		Store:       k.Store,
		Zones:       k.Zones,
		ID:          k.IDs.Next(),
		Name:        k.service + " " + k.Name, // in containers, host and pid may be the same
		Expands:     k.expands,
		Settings:    k.sharedSettings(),
		ClaimPrefix: k.claimPrefix,
		Logger:      k.Log,
		Registerer:  k.Registry,
	}
	if !k.BusInMemory {
		o.Publish = func(ctx context.Context, messages ...bus.Message) error {
			return k.Bus.Publish(ctx, bus.TimersChanged, messages...)
		}
	}
	if k.peers, err = peers.New(o); err != nil {
		return fmt.Errorf("comparing processes: %w", err)
	}
	if err := k.peers.Register(ctx); err != nil {
		return fmt.Errorf("registering the process: %w", err)
	}
	k.Process.OnClose("peers", k.peers.Close)
	k.Process.Work("peers", k.peers.Run)
	if k.expands {
		k.Process.Work("replans of time zones", k.peers.Replan)
	}
	k.Health.SetOptional("tzdata", k.peers.Check)
	k.Health.SetDetail("tzdata", func() any { return k.peers.Report() })
	k.Health.SetOptional("deployment", k.peers.CheckDeployment)
	k.Health.SetDetail("deployment", func() any { return k.peers.Deployment() })
	return nil
}

// sharedSettings returns the settings to compare with those of other processes.
func (k *Kit) sharedSettings() map[string]string {
	shared := map[string]string{}
	for _, v := range k.values {
		switch {
		case slices.Contains(sharedSettings, v.Name):
			shared[v.Name] = k.effect(v)
		case v.Name == peers.EncryptionKeys:
			shared[v.Name] = ""
			if k.Keyring != nil {
				shared[v.Name] = strings.Join(k.Keyring.Fingerprints(), ",")
			}
		}
	}
	return shared
}

// effect returns the value of a shared setting in a form that is the same for all texts with the
// same effect.
func (k *Kit) effect(v config.Value) string {
	switch v.Name {
	case "callback-allow-private":
		if c := &k.Settings.Callback; c.AllowPrivate == config.Unset && !c.LoopbackByDefault {
			return string(config.No)
		}
	case "callback-allow":
		return asSet(v.Text, " ") // a rule may have commas
	case "callback-topics", "callback-pulsar-urls", "trace-keep":
		return asSet(v.Text, ",")
	case "trust-header":
		return http.CanonicalHeaderKey(v.Text)
	}
	return v.Text
}

// asSet returns a list without blanks and duplicates, in order.
func asSet(text, separator string) string {
	var all []string
	for part := range strings.SplitSeq(text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), separator)
}
