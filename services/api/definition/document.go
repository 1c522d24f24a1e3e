package definition

import (
	"encoding/json"

	"sigs.k8s.io/yaml"

	"github.com/carillon-timer/carillon/libs/yamltext"
)

// DocumentJSON returns a document of JSON or YAML as JSON. It refuses a field that is given twice.
// JSON stays as it is, because a reader of YAML refuses or changes some of its characters.
func DocumentJSON(text []byte) ([]byte, error) {
	if json.Valid(text) {
		_, err := yamltext.FromJSON(text)
		return text, err //nolint:wrapcheck // it names the field
	}
	return yaml.YAMLToJSONStrict(yamltext.QuoteKeys(text)) //nolint:wrapcheck // it names the line
}
