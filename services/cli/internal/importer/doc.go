// Package importer converts the schedules of other systems to manifests. Each conversion says line
// by line what it could not carry over, and why.
//
// Files:
//
//	importer.go    the systems by name, and what all conversions share
//	crontab.go     crontab: files of cron
//	kubernetes.go  kubernetes: CronJobs
//	json.go        the systems that export JSON: xtimer, xxl-job, eventbridge
package importer
