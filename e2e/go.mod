module github.com/carillon-timer/carillon/e2e

go 1.26.0

replace (
	github.com/carillon-timer/carillon/libs => ../libs
	github.com/carillon-timer/carillon/proto => ../proto
	github.com/carillon-timer/carillon/services => ../services
)

require (
	github.com/apache/pulsar-client-go v0.19.0
	github.com/carillon-timer/carillon/libs v0.0.0
	github.com/carillon-timer/carillon/proto v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/valyala/fasthttp v1.71.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
	google.golang.org/protobuf v1.36.12
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/andybalholm/brotli v1.2.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-sql-driver/mysql v1.10.1 // indirect
	github.com/golang-jwt/jwt/v5 v5.3.1 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/klauspost/compress v1.20.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/oauth2 v0.37.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
