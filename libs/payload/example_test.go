package payload_test

import (
	"fmt"

	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/timer"
)

// A value is escaped for the place it stands in.
func ExampleExpand() {
	values := &payload.Values{
		Fire: timer.FireID{Timer: 42, DueMS: 1_767_225_600_000}, Attempt: 1,
		App: "shop", Name: "bill", Labels: map[string]string{"customer": `Hall & "Sons"`},
	}
	for _, t := range []struct {
		text  string
		place payload.Place
	}{
		{`{"to": "{{label.customer}}", "due": "{{due}}"}`, payload.JSON},
		{"https://example.com/bills?to={{label.customer}}", payload.URL},
		{"<to>{{label.customer}}</to>", payload.XML},
	} {
		text, err := payload.Expand(t.text, t.place, values)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(text)
	}
	// Output:
	// {"to": "Hall & \"Sons\"", "due": "2026-01-01T00:00:00.000Z"}
	// https://example.com/bills?to=Hall%20%26%20%22Sons%22
	// <to>Hall &amp; &#34;Sons&#34;</to>
}

// A text variable in JSON may stand only inside a string.
func ExampleCheck() {
	labels := map[string]string{"customer": "Hall"}
	err := payload.Check("target.body", `{"to": {{label.customer}}}`, payload.JSON, labels)
	fmt.Println(timer.CodeOf(err))
	// Output: invalid
}
