package wiring

import (
	"context"
	"fmt"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/zone"
	"github.com/carillon-timer/carillon/libs/zonewatch"
)

// openZones opens the configured time zones and makes them the process's zones. No zone may be
// loaded before. The error is a *config.Problems.
func (s *Settings) openZones() (*zone.Database, error) {
	d := zone.Embedded()
	if s.Zones.File != "" {
		var err error
		if d, err = zone.Open(s.Zones.File); err != nil {
			return nil, config.Problem(fmt.Errorf("tzdata: %w", err))
		}
	}
	if _, err := d.Load(s.API.Zone); err != nil { // empty in programs without the API
		return nil, config.Problem(fmt.Errorf("zone: %w", err))
	}
	zone.Use(d)
	return d, nil
}

// watchZones registers the process's time zones before anything is planned with them. From then on
// it compares them with those of other processes. The process is unregistered after all planning
// has stopped.
func (k *Kit) watchZones(ctx context.Context) (err error) {
	k.zones, err = zonewatch.New(zonewatch.Options{
		Store:      k.Store,
		Zones:      k.Zones,
		ID:         k.IDs.Next(),
		Name:       k.Name,
		Expands:    k.expands,
		Logger:     k.Log,
		Registerer: k.Registry,
	})
	if err != nil {
		return fmt.Errorf("comparing time zones: %w", err)
	}
	if err := k.zones.Register(ctx); err != nil {
		return fmt.Errorf("registering time zones: %w", err)
	}
	k.Process.OnClose("time zones", k.zones.Close)
	k.Process.Work("time zones", k.zones.Run)
	if k.expands {
		k.Process.Work("replans of time zones", k.zones.Replan)
	}
	k.Health.SetOptional("tzdata", k.zones.Check)
	k.Health.SetDetail("tzdata", func() any { return k.zones.Report() })
	return nil
}
