package definition

import (
	"encoding/json"

	"sigs.k8s.io/yaml"

	"github.com/carillon-timer/carillon/libs/yamltext"
	"github.com/carillon-timer/carillon/services/api/input"
)

// DocumentJSON returns a document of JSON or YAML as JSON. It refuses a field that is given twice, a
// second document, and text or bytes that are not UTF-8. It also refuses YAML that its aliases make longer than
// any request may be.
// JSON stays as it is, because a reader of YAML refuses or changes some of its characters.
func DocumentJSON(text []byte) ([]byte, error) {
	if json.Valid(text) {
		return text, input.CheckJSON(text) //nolint:wrapcheck // it names the field
	}
	if err := yamltext.CheckLength(text, input.MaxRequestBytes); err != nil {
		return nil, err //nolint:wrapcheck // it says what to do
	}
	data, err := yaml.YAMLToJSONStrict(yamltext.QuoteKeys(text))
	if err == nil {
		err = checkBinary(text)
	}
	return data, err //nolint:wrapcheck // it names the line
}
