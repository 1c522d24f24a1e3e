package selfcheck

import "context"

// Establish does what Run does first.
func (w *Watch) Establish(ctx context.Context) error {
	_, err := w.establish(ctx)
	return err
}
