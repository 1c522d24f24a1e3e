module github.com/carillon-timer/carillon/services

go 1.26.0

replace (
	github.com/carillon-timer/carillon/libs => ../libs
	github.com/carillon-timer/carillon/proto => ../proto
)

require (
	github.com/carillon-timer/carillon/libs v0.0.0
	github.com/carillon-timer/carillon/proto v0.0.0
)

require (
	github.com/danielgtaylor/huma/v2 v2.37.2 // indirect
	github.com/go-chi/chi/v5 v5.5.0 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
