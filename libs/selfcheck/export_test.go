package selfcheck

import "context"

// Ensure does what Run does first.
func (w *Watch) Ensure(ctx context.Context) error {
	_, err := w.ensure(ctx)
	return err
}
