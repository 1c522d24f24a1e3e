// Package config reads the settings of a program: defaults, then a YAML file, then the environment,
// then flags; the later source wins. Every setting has one name: flag -http-addr, environment
// CARILLON_HTTP_ADDR, and http-addr in the file (or addr below http). Each component has a struct
// with its defaults and a Validate method, and a program uses the structs it needs.
//
// A file may contain settings of other components, because one file serves five services, but no
// unknown settings. All problems of all sources are reported at once, each with the setting and the
// source of its value. Secrets have types of their own, so that neither -print-config nor a log
// line shows one by accident.
package config
