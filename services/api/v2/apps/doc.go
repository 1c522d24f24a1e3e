// Package apps manages apps: their freeze, settings, signing keys and API keys.
//
// Files:
//
//	resource.go  the operations, with their paths
//	apps.go      list and read apps, freeze and unfreeze them
//	settings.go  limits of an app, and addresses it may call
//	keys.go      API keys
//	signing.go   signing keys
//	caller.go    which app and scope the caller's key is for
package apps
