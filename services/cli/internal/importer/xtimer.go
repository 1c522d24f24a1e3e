package importer

import (
	"encoding/json"
	"strings"
)

// xtimerRow is a timer of xTimer, as its API shows it or its table keeps it.
type xtimerRow struct {
	App    string `json:"app"`
	Name   string `json:"name"`
	Status int    `json:"status"` // 2 is enabled
	Cron   string `json:"cron"`

	Param *xtimerCall     `json:"notifyHTTPParam"`
	Row   json.RawMessage `json:"notify_http_param"` // of the table: an object, or one as text
}

type xtimerCall struct {
	URL    string              `json:"url"`
	Method string              `json:"method"`
	Header map[string][]string `json:"header"`
	Body   string              `json:"body"`
}

// xtimer converts timers of xTimer.
func xtimer(data []byte, opts Options) ([]Result, error) {
	const enabled = 2
	rows, err := decode[xtimerRow](data, "data", "timers")
	if err != nil {
		return nil, err
	}
	var all []Result
	for i := range rows {
		r := &rows[i]
		e := newEntry(opts, place("entry", i+1, r.Name))
		call, err := r.call()
		if err != nil {
			all = append(all, e.refusef("notify_http_param: %v", err))
			continue
		}
		if r.Status != enabled {
			e.body["status"] = "inactive"
		}
		e.cron(r.Cron, "", "the server of xTimer")
		e.url = call.URL
		target := e.field("target")
		target["method"] = strings.ToUpper(call.Method)
		if call.Method == "" {
			target["method"] = "POST"
		}
		if call.Body != "" {
			e.setBody(call.Body)
		}
		if len(call.Header) > 0 {
			target["headers"] = call.Header
		}
		all = append(all, e.finish(r.App, r.Name))
	}
	return all, nil
}

func (r *xtimerRow) call() (xtimerCall, error) {
	var call xtimerCall
	if r.Param != nil {
		return *r.Param, nil
	}
	raw := []byte(r.Row)
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = []byte(text)
	}
	if len(raw) == 0 {
		return call, nil
	}
	err := json.Unmarshal(raw, &call)
	return call, err //nolint:wrapcheck // the caller names the field
}
