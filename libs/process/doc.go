// Package process is the life of a program: it starts parts, waits for a signal or for a part that
// ends, and stops everything in one order, written once:
//
//  1. not ready: /readyz says no, and load balancers look elsewhere;
//  2. drain: for a while requests are still taken from those who have not noticed;
//  3. intake stops: listeners close, requests in hand are answered;
//  4. work stops: services finish what they have in hand and flush it;
//  5. close: connections and files are closed, the last opened first.
//
// Steps 3 and 4 are bounded: what takes longer is named in the log and left behind. That is safe,
// because every part must survive SIGKILL anyway; it is only slower for whoever takes over. A
// second signal ends the process at once.
package process
