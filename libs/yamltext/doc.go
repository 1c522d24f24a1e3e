// Package yamltext writes YAML that readers of version 1.1 and of 1.2 take alike. In 1.1 the words
// y, no and off are booleans, 1:30 is a number, and some characters end a line. Texts that a reader
// could take for something else are quoted, and such characters are escaped.
//
// It also reads YAML: what a text has is read whole, or refused.
//
// Files:
//
//	yamltext.go   texts, values of JSON, and keys as YAML
//	documents.go  splits a text into documents, and reads one
//	length.go     limits what aliases make of a document
package yamltext
