package ui

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// importCalendar adds the dates of an iCalendar file to a calendar, and shows what the file had.
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
	d := new(calendarData)
	var out struct{ Import calendarImport }
	err = q.send(http.MethodPost, q.calendarPath(query, "import"), "text/calendar", body, &out)
	if err != nil {
		return q.refuseCalendar("import", d, err)
	}
	d.Imported = &out.Import
	return q.showCalendar(http.StatusOK, d)
}
