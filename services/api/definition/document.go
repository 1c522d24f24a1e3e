package definition

import (
	"encoding/json"

	"sigs.k8s.io/yaml"

	"github.com/carillon-timer/carillon/libs/yamltext"
	"github.com/carillon-timer/carillon/services/api/input"
)

// DocumentJSON returns a document of JSON or YAML as JSON. It refuses a field that is given twice, and
// text that is not UTF-8.
// JSON stays as it is, because a reader of YAML refuses or changes some of its characters.
func DocumentJSON(text []byte) ([]byte, error) {
	if json.Valid(text) {
		return text, input.CheckJSON(text) //nolint:wrapcheck // it names the field
	}
	return yaml.YAMLToJSONStrict(yamltext.QuoteKeys(text)) //nolint:wrapcheck // it names the line
}
