// Package process runs the parts of a program. It waits for a signal, or for a part that ends, and
// then stops everything in this order:
//
//  1. not ready: /readyz fails, so that load balancers choose other processes;
//  2. drain: for a while requests are still accepted from clients that have not noticed;
//  3. intake stops: listeners close, requests in flight are answered;
//  4. work stops: services finish and flush their work in flight;
//  5. close: connections and files are closed, the last opened first.
//
// Steps 3 and 4 have a time limit. A part that exceeds it is named in the log and abandoned. That
// is safe, because every part must survive SIGKILL anyway; other processes only take longer to take
// over. A second signal ends the process at once.
//
//	main.go     runs a program until a signal; exit codes and version
//	process.go  the parts: starts them, and stops them in order
//	http.go     HTTP servers, and the admin listener
//	probe.go    the argument probe: asks the program beside it whether it is ready
package process
