module github.com/carillon-timer/carillon/services

go 1.26.0

replace (
	github.com/carillon-timer/carillon/proto => ../proto
	github.com/carillon-timer/carillon/libs => ../libs
)
