package allinone

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
)

// EchoPath is the path of the echo endpoint.
const EchoPath = "/dev/echo"

const maxEchoBody = 200 // bytes of a body that are printed

// Echo returns an endpoint that prints a line for each callback: the fire, its lateness, and the
// body.
func Echo(w io.Writer) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		now := time.Now()
		body, err := io.ReadAll(io.LimitReader(r.Body, maxEchoBody))
		if err != nil {
			http.Error(rw, "the body could not be read", http.StatusBadRequest)
			return
		}
		late := "not a callback of a timer"
		if due, err := time.Parse(time.RFC3339, r.Header.Get(callback.HeaderDue)); err == nil {
			late = fmt.Sprintf(
				"due %s, %+d ms",
				due.Format("15:04:05.000"),
				now.Sub(due).Milliseconds(),
			)
		}
		mu.Lock()
		defer mu.Unlock()
		// Quoted, so that a header cannot control the terminal.
		fmt.Fprintf(
			w,
			"CALL %s  fire %q  attempt %q  %s %q\n",
			late,
			r.Header.Get(callback.HeaderFireID),
			r.Header.Get(callback.HeaderAttempt),
			r.Method,
			body,
		)
		rw.WriteHeader(http.StatusNoContent)
	})
}
