package timers

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// setDefaults sets the fields of a body, at any depth, that are zero and have a default, as huma
// does for bodies of requests.
func setDefaults(v reflect.Value) error {
	switch v.Kind() { //nolint:exhaustive // other kinds have no fields
	case reflect.Pointer:
		if !v.IsNil() {
			return setDefaults(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := setDefaults(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			if err := setDefault(v.Field(i), v.Type().Field(i).Tag.Get("default")); err != nil {
				return err
			}
		}
	default:
	}
	return nil
}

func setDefault(field reflect.Value, text string) error {
	switch {
	case text == "" || !field.IsZero():
		return setDefaults(field)
	case field.Kind() == reflect.String:
		field.SetString(text)
		return nil
	}
	if err := json.Unmarshal([]byte(text), field.Addr().Interface()); err != nil {
		return fmt.Errorf("reading the default %q: %w", text, err)
	}
	return nil
}
