package sqlstore

import (
	"context"
	"errors"

	"github.com/carillon-timer/carillon/libs/store"
)

// errDryRun rolls back the transaction of a dry run that has succeeded.
var errDryRun = errors.New("dry run")

// dryRun is fn without a commit. It takes the locks of the write, until it is rolled back. So the
// answer is that of a write at this instant, including every refusal. Only what a commit itself
// reports is missing: a full disk, or a conflict between nodes of a cluster.
func (s *Store) dryRun(fn work) work {
	return func(ctx context.Context, c runner) error {
		if err := s.insertMissing(ctx, c); err != nil {
			return err
		}
		if err := fn(ctx, c); err != nil {
			return err
		}
		return errDryRun
	}
}

// missingApps are apps that a dry run inserts in its transaction. A write inserts them before it,
// see makeApps.
type missingApps struct {
	names []string
	ids   map[string]int64 // of the caller, by name; set in the transaction
}

type missingAppsKey struct{}

func withMissing(ctx context.Context, m *missingApps) context.Context {
	return context.WithValue(ctx, missingAppsKey{}, m)
}

func (s *Store) insertMissing(ctx context.Context, c runner) error {
	m, ok := ctx.Value(missingAppsKey{}).(*missingApps)
	if !ok {
		return nil
	}
	for _, name := range m.names {
		if _, err := s.exec(ctx, c, s.insertApp(name)); err != nil {
			return err
		}
		row, err := s.selectApp(ctx, c, name, "")
		if err != nil {
			return err
		}
		m.ids[name] = row.ID
	}
	return nil
}

// missing returns a context whose transaction inserts the apps, and false for a write.
func missing(
	ctx context.Context, names []string, ids map[string]int64,
) (context.Context, bool) {
	if !store.IsDryRun(ctx) {
		return ctx, false
	}
	return withMissing(ctx, &missingApps{names: names, ids: ids}), true
}
