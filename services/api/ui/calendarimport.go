package ui

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// importedCookie has what a file had until the calendar shows it.
const importedCookie = "carillon_imported"

// importedFile is what a file had that was imported into a calendar.
type importedFile struct {
	Name   string // of the calendar
	Import calendarImport
}

// importCalendar adds the dates of an iCalendar file to a calendar, which then shows what the file
// had.
func importCalendar(q *request) error {
	file, _, err := q.r.FormFile("file")
	if errors.Is(err, http.ErrMissingFile) || errors.Is(err, http.ErrNotMultipart) {
		return q.refuseCalendar("import", new(calendarData), &apiError{
			Status: http.StatusUnprocessableEntity, Detail: q.views.texts.get("no_file"),
		})
	}
	var body []byte
	if err == nil {
		defer func() { _ = file.Close() }() // it is read already
		body, err = io.ReadAll(file)
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return q.refuseCalendar("import", new(calendarData), &apiError{
			Status: http.StatusUnprocessableEntity, Detail: q.views.texts.get("file_too_large"),
		})
	}
	if err != nil {
		return fmt.Errorf("reading a file: %w", err)
	}
	query := make(url.Values)
	for _, name := range []string{"as", "mode"} {
		if v := q.r.PostFormValue(name); v == "included" || v == "replace" {
			query.Set(name, v)
		}
	}
	var out importedFile
	err = q.send(http.MethodPost, q.calendarPath(query, "import"), "text/calendar", body, &out)
	if err != nil {
		return q.refuseCalendar("import", new(calendarData), err)
	}
	out.Name = q.r.PathValue("name")
	return q.handOver(importedCookie, q.appPath("calendars", out.Name)+"?did=import", &out)
}
