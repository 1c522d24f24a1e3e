// Package config reads the settings of a program: its defaults, then a YAML file, then the
// environment, then flags; the later wins. Every setting has one name: flag -http-addr, environment
// CARILLON_HTTP_ADDR, in the file http-addr (or addr below http). There is a struct per component,
// with its defaults and its Validate, and a program takes those it needs.
//
// A file may hold settings of other components (one file serves five services), but none that no
// component knows. All problems of all sources are reported at once, each naming the setting and
// where its value came from. Secrets are types, so that neither -print-config nor a log line shows
// one by accident.
package config
