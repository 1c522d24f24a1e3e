// Command files serves a directory by HTTP: files ADDRESS DIR. Serving a Go module cache makes it a
// module proxy.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "files ADDRESS DIR")
		os.Exit(2)
	}
	s := &http.Server{Addr: os.Args[1], Handler: http.FileServer(http.Dir(os.Args[2])), ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, "files:", s.ListenAndServe())
	os.Exit(1)
}
