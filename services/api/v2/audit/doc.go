// Package audit shows the audit trail: who changed what, and when.
//
//	resource.go  its operations, and what it needs
//	list.go      pages of entries, and which a request selects
//	show.go      one entry, with what was before and after
package audit
