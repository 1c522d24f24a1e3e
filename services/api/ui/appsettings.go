package ui

import (
	"net/http"
	"strconv"
	"strings"
)

// appSettings are the limits and rules of an app, as a form has them.
type appSettings struct {
	Rate, Burst, Concurrent string // empty: none
	Allow                   string // a rule on each line
	Version                 int64  // 0: nothing was set yet
}

func (q *request) readSettings() (s appSettings, err error) {
	var b struct {
		Rate              float64
		Burst, Concurrent int
		Allow             []string
		Version           int64
	}
	err = q.get("/apps"+pathOf(q.app, "settings"), nil, &b)
	if hasStatus(err, http.StatusNotFound) {
		return s, nil
	}
	s.Allow, s.Version = strings.Join(b.Allow, "\n"), b.Version
	if b.Rate > 0 {
		s.Rate = strconv.FormatFloat(b.Rate, 'f', -1, 64)
	}
	if b.Burst > 0 {
		s.Burst = strconv.Itoa(b.Burst)
	}
	if b.Concurrent > 0 {
		s.Concurrent = strconv.Itoa(b.Concurrent)
	}
	return s, err
}

// putAppSettings replaces the settings that the form was made of. If somebody changed them since,
// it shows both, and the form replaces the present ones when it is sent again.
func putAppSettings(q *request) error {
	form := func(name string) string { return strings.TrimSpace(q.r.PostFormValue(name)) }
	d := &appData{Settings: appSettings{
		Rate: form("rate"), Burst: form("burst"), Concurrent: form("concurrent"),
		Allow: form("allow"),
	}}
	d.Settings.Version, _ = strconv.ParseInt(form("version"), 10, 64) // 0: any
	in, err := d.Settings.body(q.views.texts)
	if err == nil {
		err = q.do(http.MethodPut, "/apps"+pathOf(q.app, "settings"), in, nil)
	}
	if hasStatus(err, http.StatusConflict) {
		present, readErr := q.readSettings()
		if readErr != nil {
			return readErr
		}
		d.Changed, d.Settings.Version = present.Version != d.Settings.Version, present.Version
	}
	if err != nil {
		return q.refuseAt("limits", d, err)
	}
	q.did(q.appPath("app"), "settings")
	return nil
}

// body returns the settings as the API takes them.
func (s *appSettings) body(t texts) (map[string]any, error) {
	in, bad := make(map[string]any), &apiError{Status: http.StatusUnprocessableEntity}
	wrong := func(name string) {
		bad.Errors = append(bad.Errors, fieldError{name, t.get("not_a_number")})
	}
	if s.Rate != "" {
		rate, err := strconv.ParseFloat(s.Rate, 64)
		if in["rate"] = rate; err != nil || rate != rate || rate > maxFormNumber {
			wrong("rate")
		}
	}
	for name, text := range map[string]string{"burst": s.Burst, "concurrent": s.Concurrent} {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if in[name] = n; err != nil {
			wrong(name)
		}
	}
	if len(bad.Errors) > 0 {
		bad.Detail = bad.Errors[0].Location + ": " + bad.Errors[0].Message
		return nil, bad
	}
	if rules := strings.Fields(s.Allow); len(rules) > 0 {
		in["allow"] = rules
	}
	if s.Version > 0 {
		in["if_version"] = s.Version
	}
	return in, nil
}

// maxFormNumber excludes infinity, which JSON does not have.
const maxFormNumber = 1e15
