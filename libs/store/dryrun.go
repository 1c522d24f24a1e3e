package store

import "context"

type dryRunKey struct{}

// WithDryRun makes the calls of a request dry runs, see S38. The mark is in the context, because a
// request makes several calls through several packages, and one without the mark would write.
func WithDryRun(ctx context.Context) context.Context {
	return context.WithValue(ctx, dryRunKey{}, true)
}

// IsDryRun reports whether calls with ctx are dry runs.
func IsDryRun(ctx context.Context) bool {
	dry, _ := ctx.Value(dryRunKey{}).(bool)
	return dry
}
