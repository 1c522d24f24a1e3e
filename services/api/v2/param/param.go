package param

import (
	"context"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/input"
)

// PathAppParam names the app that a request is about.
type PathAppParam struct {
	App string `path:"app" minLength:"1" maxLength:"64" doc:"The app."`
}

// AppParam names the app of a request. Embedded structs are exported, because huma reads no others.
type AppParam struct {
	App string `query:"app" required:"true" minLength:"1" maxLength:"64" doc:"The app that owns it."`
}

// TimerParam identifies a timer.
type TimerParam struct {
	AppParam
	ID string `path:"id" pattern:"^[0-9]{1,16}$" doc:"The timer's id."`
}

// PageParam selects a page of a list.
type PageParam struct {
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Items of a page at the most."`
	Cursor string `query:"cursor" maxLength:"256" doc:"next_cursor of the page before; empty for the first page."`
}

// Timer checks that the caller may act for the app, and returns the timer's id.
func Timer(ctx context.Context, a *auth.Checker, p *TimerParam) (timer.ID, error) {
	if err := a.AuthorizeApp(ctx, p.App); err != nil {
		return 0, err
	}
	id, err := timer.ParseID(p.ID)
	if err != nil {
		return 0, timer.NotFound("timer", p.ID)
	}
	return id, nil
}

// OwnTimer is Timer for a request that changes something.
func OwnTimer(ctx context.Context, a *auth.Checker, p *TimerParam) (timer.ID, error) {
	id, err := Timer(ctx, a, p)
	if err != nil {
		return 0, err
	}
	return id, input.CheckNotSystemApp("query.app", p.App)
}
