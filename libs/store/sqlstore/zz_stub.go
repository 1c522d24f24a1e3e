package sqlstore

import (
	"context"
	"errors"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

var errStub = errors.New("stub")

func (s *Store) TimerNamed(ctx context.Context, app, name string) (t timer.Timer, err error) {
	return t, timer.NotFound("timer", name)
}
func (s *Store) Edit(ctx context.Context, items []store.Edit, plan store.Planner) ([]store.Edited, error) {
	return nil, errStub
}
func (s *Store) AddFires(ctx context.Context, app string, id timer.ID, fires []timer.Fire) ([]timer.Fire, error) {
	return nil, errStub
}
func (s *Store) App(ctx context.Context, name string) (a store.App, err error) { return a, errStub }
func (s *Store) SetFrozen(ctx context.Context, name string, frozen bool, reason string) (a store.App, err error) {
	return a, errStub
}
func (s *Store) PutCalendar(ctx context.Context, app string, c timer.Calendar, ifVersion int64) (int64, error) {
	return 0, errStub
}
func (s *Store) Calendar(ctx context.Context, app, name string) (c store.CalendarVersion, err error) {
	return c, timer.NotFound("calendar", name)
}
func (s *Store) Calendars(ctx context.Context, app, after string, limit int) ([]store.CalendarVersion, error) {
	return nil, nil
}
func (s *Store) DeleteCalendar(ctx context.Context, app, name string) error { return errStub }
func (s *Store) StartBackfill(ctx context.Context, b store.Backfill) (store.Backfill, error) {
	return b, errStub
}
func (s *Store) Backfill(ctx context.Context, app string, id timer.ID) (b store.Backfill, err error) {
	return b, errStub
}
func (s *Store) CancelBackfill(ctx context.Context, app string, id timer.ID) (b store.Backfill, err error) {
	return b, errStub
}
