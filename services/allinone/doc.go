// Package allinone runs the five services in one process over embedded parts: `carillon dev`. Its
// echo endpoint prints each call.
package allinone
