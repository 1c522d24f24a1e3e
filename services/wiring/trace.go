package wiring

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/tracing"
)

// trace switches tracing on if the environment says so. Its part is closed after all others, which
// still make spans while they stop.
func (k *Kit) trace(ctx context.Context, p Program, env process.Env) (err error) {
	keep, err := tracing.ParseKeep(k.Settings.Tracing.Keep)
	if err != nil {
		return fmt.Errorf("trace-keep: %w", err)
	}
	k.Tracer, err = tracing.New(ctx, tracing.Options{
		Env:        tracing.Env(env),
		Service:    strings.ReplaceAll(p.Name, " ", "-"),
		Version:    process.Version(),
		Keep:       keep,
		Logger:     k.Log,
		Registerer: k.Registry,
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the variable
	}
	if k.Tracer != nil {
		k.Log.Info().Msg("traces are exported")
		k.Process.OnClose("traces", k.Tracer.Close)
	}
	return nil
}
