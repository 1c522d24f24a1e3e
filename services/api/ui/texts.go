package ui

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"

	"golang.org/x/text/language"
)

//go:embed texts
var catalogues embed.FS

const (
	languageCookie = "carillon_language"
	themeCookie    = "carillon_theme"
)

// languages are those that have a catalogue; the first is the default.
var languages = []string{"en", "zh"}

var matcher = language.NewMatcher([]language.Tag{language.English, language.Chinese})

// texts are the texts of one language by their key.
type texts map[string]string

func loadTexts(name string) (texts, error) {
	b, err := catalogues.ReadFile("texts/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("texts: %w", err)
	}
	var t texts
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("texts of %s: %w", name, err)
	}
	return t, nil
}

// get returns a text, with its values if it has any. A missing key is shown, so that it is seen.
// Where the first value is 1, the text of key_one goes before.
func (t texts) get(key string, values ...any) string {
	s, ok := t[key]
	if one, there := t[key+"_one"]; there && len(values) > 0 && values[0] == 1 {
		s = one
	}
	if !ok {
		return key
	}
	if len(values) > 0 {
		return fmt.Sprintf(s, values...)
	}
	return s
}

// value returns the text for a value of the API, such as status "active". A value that a later API
// adds is shown as it is.
func (t texts) value(kind, value string) string {
	if s, ok := t[kind+"."+value]; ok {
		return s
	}
	return value
}

// languageOf returns the language that the viewer chose, or the best of those the browser accepts.
func languageOf(r *http.Request) string {
	if c, err := r.Cookie(languageCookie); err == nil {
		for _, l := range languages {
			if c.Value == l {
				return l
			}
		}
	}
	tags, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return languages[0]
	}
	_, i, _ := matcher.Match(tags...)
	return languages[i]
}

// themeOf returns the theme that the viewer chose; auto is that of the system.
func themeOf(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "dark" || c.Value == "light") {
		return c.Value
	}
	return "auto"
}
