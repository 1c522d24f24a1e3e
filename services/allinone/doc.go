// Package allinone runs the five services in one process over embedded parts: `carillon dev`. Its
// echo endpoint prints each call.
//
//	dev.go    runs the five roles over embedded parts
//	panel.go  what it prints on a terminal once it has started
//	echo.go   the echo endpoint
package allinone
