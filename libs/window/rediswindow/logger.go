package rediswindow

import "github.com/redis/go-redis/v9/logging"

// init switches off the library's own log: plain text at the standard error, a dozen lines at each
// failover of Sentinel. Failures reach the callers as errors.
//
//nolint:gochecknoinits // a global variable of the library, which clients read without a lock
func init() { logging.Disable() }
