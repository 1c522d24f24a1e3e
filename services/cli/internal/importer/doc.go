// Package importer converts the schedules of other systems to manifests. Each conversion says line
// by line what it could not carry over, and why.
//
// Files:
//
//	importer.go     the systems by name, and what all conversions share
//	check.go        refuses what the API would refuse
//	limits.go       brings values within the limits of the API
//	names.go        names that are valid, each once
//	crontab.go      crontab and cron.d: files of cron
//	shell.go        the command line of an entry of crontab
//	options.go      the options of a command
//	curl.go         the options of curl
//	wget.go         the options of wget
//	request.go      the call that curl or wget makes, as a target
//	kubernetes.go   kubernetes: CronJobs
//	json.go         reads entries in JSON, for the systems below
//	xtimer.go       xtimer: timers
//	xxljob.go       xxl-job: jobs
//	eventbridge.go  eventbridge: schedules of Amazon EventBridge Scheduler
//	attributes.go   what EventBridge puts into the body of a call
//	quartz.go       the cron expressions of Quartz and EventBridge
package importer
