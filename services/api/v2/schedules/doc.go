// Package schedules previews schedules.
//
//	resource.go  its operations, and what it needs
//	preview.go   when a schedule is due, and what calendars exclude
//	warnings.go  warnings about valid values that are probably mistakes
package schedules
