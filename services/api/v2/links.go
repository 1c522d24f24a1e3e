package v2

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// link says that an operation takes something from the answer to another one.
type link struct {
	from   string // operation
	status int    // of its answer
	to     string // operation
	params map[string]string
}

// links returns how operations follow each other. Programs that explore the API use them, and so do
// people who read its description.
func links() []link {
	ofTimer := map[string]string{
		"path.id": "$response.body#/id", "query.app": "$response.body#/app",
	}
	ofJob := map[string]string{
		"path.app": "$request.path.app", "path.id": "$response.body#/id",
	}
	ofApp := map[string]string{"path.app": "$request.path.app"}
	var all []link
	for _, to := range []string{
		"get-timer", "change-timer", "pause-timer", "resume-timer", "run-timer", "list-fires",
		"explain-timer", "start-backfill", "delete-timer",
	} {
		all = append(all,
			link{"create-timer", 201, to, ofTimer},
			link{"put-timer", 200, to, ofTimer}, link{"put-timer", 201, to, ofTimer})
	}
	for _, to := range []string{"get-job", "cancel-job"} {
		all = append(all, link{"start-job", 202, to, ofJob})
	}
	for _, to := range []string{"get-backfill", "cancel-backfill"} {
		all = append(all, link{"start-backfill", 202, to, map[string]string{
			"path.id": "$response.body#/id", "query.app": "$request.query.app",
		}})
	}
	for _, to := range []string{"get-calendar", "delete-calendar", "import-calendar"} {
		all = append(all, link{"put-calendar", 200, to, map[string]string{
			"path.name": "$request.path.name", "query.app": "$request.query.app",
		}})
	}
	return append(
		all,
		link{"run-timer", 202, "get-fire", map[string]string{
			"path.id": "$response.body#/id", "query.app": "$request.query.app",
		}},
		link{"create-signing-key", 201, "retire-signing-key", ofJob},
		link{"create-api-key", 201, "revoke-api-key", ofJob},
		link{"freeze-app", 200, "unfreeze-app", ofApp},
		link{"put-app-settings", 200, "get-app-settings", ofApp},
	)
}

// addLinks adds the links to the description. It panics if one names no operation, answer or
// parameter: the table above is wrong then.
func addLinks(d *huma.OpenAPI) {
	ops := operations(d)
	for _, l := range links() {
		from, to := ops[l.from], ops[l.to]
		if from == nil || to == nil || from.Responses[strconv.Itoa(l.status)] == nil {
			panic(fmt.Sprintf("link from %s (%d) to %s", l.from, l.status, l.to))
		}
		params := make(map[string]any, len(l.params))
		for name, value := range l.params {
			if !hasParam(to, name) {
				panic(fmt.Sprintf("link from %s to %s: no parameter %s", l.from, l.to, name))
			}
			params[name] = value
		}
		r := from.Responses[strconv.Itoa(l.status)]
		if r.Links == nil {
			r.Links = make(map[string]*huma.Link)
		}
		r.Links[l.to] = &huma.Link{OperationID: l.to, Parameters: params}
	}
}

// hasParam reports whether an operation has a parameter such as path.id.
func hasParam(op *huma.Operation, name string) bool {
	return slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool {
		return p.In+"."+p.Name == name
	})
}

// operations returns the operations of a description by their ids.
func operations(d *huma.OpenAPI) map[string]*huma.Operation {
	ops := make(map[string]*huma.Operation)
	for _, p := range d.Paths {
		for _, op := range []*huma.Operation{p.Get, p.Post, p.Put, p.Patch, p.Delete} {
			if op != nil {
				ops[op.OperationID] = op
			}
		}
	}
	return ops
}
