module github.com/carillon-timer/carillon/e2e

go 1.26.0

replace (
	github.com/carillon-timer/carillon/proto => ../proto
	github.com/carillon-timer/carillon/libs => ../libs
	github.com/carillon-timer/carillon/services => ../services
)
