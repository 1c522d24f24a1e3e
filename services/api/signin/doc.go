// Package signin knows people and machines by an identity provider, with OpenID Connect.
//
//	provider.go    the provider: sign-ins of people, and tokens of machines
//	roles.go       rules that turn the groups of a person into scopes
//	ends.go        since when sessions of a person count
//	keyfetches.go  limits how often the provider's keys are fetched
package signin
