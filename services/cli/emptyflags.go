package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// errNoValue is the error of a text flag that is given without a value.
var errNoValue = errors.New("expected a value, found none: leave the flag out")

// refuseEmpty makes all text flags of a command, and of those below it, refuse an empty value: it is
// a variable of a script that is not set, and the flag would count as left out, so that more would be
// selected than was meant, or another app or deployment. No flag gives the empty value a meaning of
// its own; one that is to have it is left out here. Programs read their own settings.
func refuseEmpty(c *cobra.Command) {
	refuse := func(f *pflag.Flag) {
		switch v := f.Value.(type) {
		case *filled, *filledList: // the flag of several commands
		case listValue:
			f.Value = &filledList{listValue: v}
			f.DefValue = "" // else the help would show that it is an empty list
		default:
			if v.Type() == "string" {
				f.Value = &filled{Value: v}
			}
		}
	}
	c.Flags().VisitAll(refuse)
	c.PersistentFlags().VisitAll(refuse)
	for _, sub := range c.Commands() {
		refuseEmpty(sub)
	}
}

// filled is the value of a text flag that is not empty where it is given.
type filled struct{ pflag.Value }

func (f *filled) Set(text string) error {
	if text == "" {
		return errNoValue
	}
	return f.Value.Set(text) //nolint:wrapcheck // pflag names the flag
}

// listValue is the value of a flag that may be given several times.
type listValue interface {
	pflag.Value
	pflag.SliceValue
}

// filledList is filled for each value of a list. One without a value would not count, beside others.
type filledList struct{ listValue }

func (f *filledList) Set(text string) error {
	if text == "" {
		return errNoValue
	}
	return f.listValue.Set(text) //nolint:wrapcheck // pflag names the flag
}

// flagError returns the error of a flag as one of usage.
func flagError(c *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok &&
		errors.Is(err, errNoValue) {
		return usageError("--" + invalid.GetFlag().Name + ": " + errNoValue.Error())
	}
	return usageError(fmt.Sprintf("%v; %s", err, flagHint(c, err)))
}
