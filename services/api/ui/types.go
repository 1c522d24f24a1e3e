package ui

import "encoding/json"

// The types hold what pages show of the API's answers; docs/api.md describes them.

type appList struct {
	Items []struct {
		App    string
		Frozen bool
		Reason string
	}
	NextCursor string `json:"next_cursor"`
}

type schedule struct {
	Kind      string
	Specs     []string
	TimeZone  string `json:"time_zone"`
	Every     string
	At        string
	Delay     string
	Calendars []string
}

type timerBody struct {
	ID          string
	Name        string
	App         string
	Status      string
	Labels      map[string]string
	Version     int
	NextDue     string `json:"next_due"`
	LastFired   string `json:"last_fired"`
	LastOutcome string `json:"last_outcome"`
	Unreadable  string
	Schedule    schedule
	Paused      *struct{ Reason, Until string }
	Priority    string
	CreatedAt   string `json:"created_at"`
	UpdatedAt   string `json:"updated_at"`
}

type timerList struct {
	Items          []timerBody
	NextCursor     string `json:"next_cursor"`
	Total          int
	TotalIsMinimum bool `json:"total_is_minimum"`
}

type fireBody struct {
	ID         string
	TimerID    string `json:"timer_id"`
	TimerName  string `json:"timer_name"` // only in the history of an app
	Due        string
	Status     string
	Cause      string
	Reason     string
	Failure    string
	WaitsFor   string `json:"waits_for"`
	FinishedAt string `json:"finished_at"`
	NextRun    string `json:"next_run"`
	RedrivenAs string `json:"redriven_as"`
	Attempts   int
	StatusCode int   `json:"status_code"`
	LatenessMS int64 `json:"lateness_ms"`
	Version    int
}

type fireList struct {
	Items      []fireBody
	NextCursor string `json:"next_cursor"`
}

type fireDetail struct {
	fireBody

	SessionName string `json:"session_name"`
	Timeline    []struct{ At, Code, Text string }
	AttemptLog  []struct {
		N          int
		StartedAt  string `json:"started_at"`
		DurationMS int64  `json:"duration_ms"`
		StatusCode int    `json:"status_code"`
		Failure    string
		Error      string
		Excerpt    string
		Target     string
	} `json:"attempt_log"`
}

type forecast struct {
	Fires    []struct{ Due, Local string }
	Excluded []struct{ Due, Local, Reason string }
	Warnings []struct{ Message string }
}

type explanation struct {
	Items []struct {
		At, Code, Text, Spec, Local, Before, After string
		Version                                    int
	}
	Holds []struct{ Code, Text string }
}

type filterBody struct {
	Labels       string `json:"labels,omitempty"`
	NamePrefix   string `json:"name_prefix,omitempty"`
	NameContains string `json:"name_contains,omitempty"`
	Status       string `json:"status,omitempty"`
	TargetHost   string `json:"target_host,omitempty"`
}

type jobStart struct {
	Action string      `json:"action"`
	Filter *filterBody `json:"filter,omitempty"`
	All    bool        `json:"all,omitempty"`
	Reason string      `json:"reason,omitempty"`
	Until  string      `json:"until,omitempty"`

	SetLabels    map[string]string `json:"set_labels,omitempty"`
	RemoveLabels []string          `json:"remove_labels,omitempty"`
}

type jobBody struct {
	ID      string
	Action  string
	Status  string
	Total   int
	AtLeast bool `json:"at_least"`
	Done    int
	Failed  int
	Failure string
	Reason  string
	Until   string
	Filter  filterBody

	SetLabels    map[string]string `json:"set_labels"`
	RemoveLabels []string          `json:"remove_labels"`

	Sample []struct{ ID, Name, Status string }
	Errors []struct{ Timer, Name, Error string }
}

type statsBody struct {
	CompleteFrom string `json:"complete_from"`
	Truncated    bool
	Total        countsBody
	Steps        []statsStep
}

type statsStep struct {
	Begin string
	countsBody
}

type countsBody struct {
	Delivered, Failed, Skipped int
	Reasons                    map[string]int
	Lateness                   *struct {
		P50MS int64 `json:"p50_ms"`
		P99MS int64 `json:"p99_ms"`
		MaxMS int64 `json:"max_ms"`
	}
}

// rawTimer keeps a definition as the API shows it, and its schedule for a preview.
type rawTimer struct {
	timerBody

	Raw         json.RawMessage
	RawSchedule json.RawMessage
}
