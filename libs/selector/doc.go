// Package selector selects timers by their labels, with the selectors of Kubernetes:
//
//	team=pay,env!=dev,tier in (a,b),zone notin (x),owner,!legacy
//
// All requirements must hold. As in Kubernetes, != and notin also hold where the label is missing.
//
// A name or a value of other characters stands in double quotes, with the escapes of Go:
// "team name"="pay, eu". Labels of timers are any text of up to 256 bytes. The parser of
// k8s.io/apimachinery takes 63 letters, digits and -_. only, and cannot be told otherwise, so this
// package has its own. A test compares the two on what both take. The operators > and < of
// Kubernetes are refused, because the values of timers are texts.
//
// Files:
//
//	selector.go  a selector, and whether labels meet it
//	parse.go     reads the text of a selector
package selector
