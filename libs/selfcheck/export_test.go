package selfcheck

import "context"

// Ensure runs the first step of Run.
func (w *Watch) Ensure(ctx context.Context) error {
	_, err := w.ensure(ctx)
	return err
}
