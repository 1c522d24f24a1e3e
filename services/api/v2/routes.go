package v2

import (
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// version is the version of the API description. Every change of the description increases it.
const version = "2.12.0"

// Names of fields are case-sensitive, as those of JSON are. Huma would take any case. For that it
// would compare each absent field with all names of the body, which took a tenth of a bulk create.
//
//nolint:gochecknoinits // huma has it for all APIs of a process
func init() { huma.ValidateStrictCasing = true }

// Resource is a group of operations.
type Resource interface {
	Register(r *route.Router)
}

// API is the operations of v2.
type API struct {
	Auth        *auth.Checker
	Problems    *problem.Reporter
	BodyTimeout time.Duration // of reading a body
	Resources   []Resource
}

// Register adds the authenticated operations to r, and those without a key to open. It returns
// their description.
func (a *API) Register(r, open chi.Router) huma.API {
	c := huma.DefaultConfig("Carillon", version)
	c.Info.Description = "Registers timers and shows what became of them. A field of a body that is null counts as absent. Durations are text such as 90s, 1h30m or 1d12h, and a day of theirs is always 24 hours."
	c.Info.License = &huma.License{
		Name: "Apache-2.0",
		URL:  "https://www.apache.org/licenses/LICENSE-2.0",
	}
	// The API serves the description itself. A documentation page would load scripts from other
	// sites.
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no $schema links in answers
	c.Transformers = append(c.Transformers, problem.PlainProblem)
	c.RejectUnknownQueryParameters = true
	c.Formats = input.StrictFormats(c.Formats)
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{route.KeyScheme: {
		Type:        "http",
		Scheme:      "bearer",
		Description: "An API key: crl_<id>_<secret>. Its scope is read, operate, write or admin; each includes those before it.",
	}}
	api := humachi.New(r, c)
	router := &route.Router{
		API:         api,
		Open:        humachi.New(open, c), // both share one description
		Auth:        a.Auth,
		Problems:    a.Problems,
		BodyTimeout: a.BodyTimeout,
	}
	for _, resource := range a.Resources {
		resource.Register(router)
	}
	documentSchemas(api.OpenAPI()) // before the bounds of types, which need no documentation
	boundIntegers(api.OpenAPI())
	documentBodies(api.OpenAPI())
	addLinks(api.OpenAPI())
	return api
}

// documentBodies documents the answers to unreadable bodies, for each operation with a body.
func documentBodies(d *huma.OpenAPI) {
	for _, p := range d.Paths {
		for _, op := range []*huma.Operation{p.Post, p.Put, p.Patch, p.Delete} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for status, text := range map[int]string{
				http.StatusBadRequest:            "The body is missing, or is no JSON.",
				http.StatusRequestTimeout:        "The body did not come in time.",
				http.StatusRequestEntityTooLarge: "The body is too long.",
				http.StatusUnsupportedMediaType:  "The body is of another content type.",
			} {
				op.Responses[strconv.Itoa(status)] = &huma.Response{
					Description: text,
					Content:     op.Responses[strconv.Itoa(http.StatusUnprocessableEntity)].Content,
				}
			}
		}
	}
}
