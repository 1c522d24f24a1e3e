// Package cli is the command line tool carillon. A group of commands is a file.
//
// Where commands begin:
//
//	cli.go          all commands, and how one is run
//	programs.go     commands of operators, which parse their own flags
//	tool.go         what the commands that call the API share
//	context.go      contexts: deployments by name
//	credentials.go  API keys of commands
//	dryrun.go       the flag --dry-run
//	input.go        standard input, until a command is told to stop
//	emptyflags.go   text flags refuse the empty value
//	instant.go      instants of flags and arguments, and of lists
//	onedash.go      long flags that are written with one dash
//	docs.go         the reference of all commands
//
// Timers and their files:
//
//	timer.go             carillon timer, and how a timer is shown
//	timer_list.go        timer list
//	timer_write.go       timer create and others that write
//	timer_bulk.go        many timers at once, by a job
//	timer_reschedule.go  timer reschedule
//	timer_testcall.go    timer test
//	apply.go             apply and diff
//	apply_timers.go      applies timers, batch by batch
//	prune.go             deletes timers that are in no file
//	once.go              requests that are done once, also if their answer is lost
//	export.go            export
//	import.go            import of other schedulers
//	calendar.go          calendar
//	preview.go           preview of a schedule
//
// Fires and their past:
//
//	fires.go     fire, timer fires, timer watch
//	history.go   fires and events of an app
//	stats.go     stats and upcoming
//	explain.go   explain
//	dead.go      dead: failed fires, and redrives
//	backfill.go  backfill
//
// Apps:
//
//	app.go           app
//	app_settings.go  app limit, app allow
//	key.go           key and signing-key
//	job.go           job
//	audit.go         audit
//	person.go        person: ends sign-ins
//
// Deployments:
//
//	setup.go        setup: migrations and topics
//	topics.go       topics: its commands and settings
//	topics_show.go  what its commands read, and how it is printed
//	backup.go       backup
//	restore.go      restore
//	reencrypt.go    reencrypt: secrets under a new key
//	secrets.go      visits every secret of a store
//	keygen.go       keys for settings
//	try.go          try: checks a cluster from outside
//	bench.go        bench
//	echo.go         the echo endpoint
//
// Packages of its own:
//
//	internal/bench     measures a deployment
//	internal/client    calls the API
//	internal/contexts  the file of contexts
//	internal/importer  converts the schedules of other systems
//	internal/manifest  reads files of definitions
//	internal/output    prints tables, JSON and YAML
//	internal/progress  shows progress
package cli
