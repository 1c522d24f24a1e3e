package importer

import (
	"regexp"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/payload"
)

var awsAttribute = regexp.MustCompile(`<aws\.scheduler\.[a-z-]+>`)

// awsVariable is the variable of a target for an attribute of EventBridge.
type awsVariable struct{ name, note string }

func awsVariables() map[string]awsVariable {
	return map[string]awsVariable{
		"<aws.scheduler.scheduled-time>": {
			"{{due.utc}}",
			"the due instant in UTC, with milliseconds",
		},
		"<aws.scheduler.execution-id>": {
			"{{fire.id}}",
			"the fire's id, which is the same on every attempt; that of EventBridge is not",
		},
		"<aws.scheduler.attempt-number>": {"{{attempt}}", "the number of the attempt, from 1"},
	}
}

// awsInput sets the body of the call. EventBridge replaces attributes such as
// <aws.scheduler.scheduled-time> in it, which become variables of the target. What has no variable
// stays as it is, with a note.
func (e *entry) awsInput(input, arn string) {
	const whole = "<aws.scheduler.schedule-arn>"
	e.field("target")["method"] = "POST"
	if arn != "" && strings.Contains(input, whole) {
		input = strings.ReplaceAll(input, whole, arn)
		e.notef("%s in Input is written out, as %s", whole, arn)
	}
	attributes := awsAttribute.FindAllString(input, -1)
	slices.Sort(attributes)
	attributes = slices.Compact(attributes)
	variables := awsVariables()
	mapped := func(attribute string) bool { return variables[attribute].name != "" }
	if slices.ContainsFunc(attributes, mapped) {
		body := strings.ReplaceAll(input, "{{", "{{open}}")
		for name, v := range variables {
			body = strings.ReplaceAll(body, name, v.name)
		}
		// The entry has no Content-Type.
		err := payload.Check("target.body", body, payload.PlaceOf("", body), nil)
		if err != nil {
			e.notef("Input has attributes where no variable can stand: %v", err)
			variables = nil
		} else {
			input = body
			e.field("target")["templates"] = true
		}
	}
	for _, a := range attributes {
		if mapped(a) {
			e.notef("%s in Input is %s: %s", a, variables[a].name, variables[a].note)
		} else {
			e.notef("%s in Input is sent as it is: correct target.body", a)
		}
	}
	e.setBody(input)
}
