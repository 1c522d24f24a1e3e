# Carillon's tasks. `make help` lists them; CONTRIBUTING.md says more.

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  := -X github.com/carillon-timer/carillon/libs/process.version=$(VERSION)
MODULES  := proto libs services e2e
PROGRAMS := ./services/cli/cmd/carillon $(foreach s,api migrator scheduler trigger executor,./services/$(s)/cmd/carillon-$(s))
SERVERS  := mysql redis redis-cluster redis-sentinel pulsar

# Go caches what it compiles under the import path, so that another clone need not compile it again.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)

.DEFAULT_GOAL := help
.PHONY: help run run-real run-cluster build test test-all test-cluster cover sim sim-mutants chaos chaos-cluster isolation bench-peers bench-smoke images e2e-kube e2e-compose test-mysql test-versions test-galera lint generate docs modules tools clean

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## run everything in one process: SQLite in ./data, embedded bus and window; needs only Go
	go build -ldflags '$(LDFLAGS)' -o bin/ ./services/cli/cmd/carillon
	@exec bin/carillon dev

run-real: build ## five services as processes over MariaDB, Redis and Pulsar (REPLICAS=2: two of each); Ctrl-C stops everything
	@exec scripts/run-real.sh

run-cluster: build ## two of each service over clusters: Galera, Redis Cluster, Pulsar (about 5 GiB); Ctrl-C stops everything
	@exec scripts/run-real.sh cluster

build: ## build the programs into bin/
	go build -ldflags '$(LDFLAGS)' -o bin/ $(PROGRAMS)

test: build ## unit tests, suites, five simulated seeds, scenarios in one process, and short faults, on real servers where available
	@exec scripts/with-servers.sh $(SERVERS) -- scripts/test.sh

test-all: build ## the tests that CI runs: the same with the race detector, 100 seeds, the oracles, and scenarios on real servers
	@exec scripts/with-servers.sh $(SERVERS) -- scripts/test.sh -all

test-cluster: ## the contract suites on clusters: Pulsar (3 ZooKeeper, 3 bookies, 3 brokers, a proxy), Redis Cluster, Redis with Sentinel
	@CARILLON_TEST_REQUIRE=redis,pulsar-cluster exec scripts/with-servers.sh redis redis-cluster redis-sentinel pulsar-cluster -- \
	  go test -count=1 -p 1 -timeout 20m ./libs/bus/pulsarbus ./libs/window/rediswindow ./libs/limit/redisstate \
	  -run '^TestContract(OnACluster|ThroughProxy|WithSentinel)$$'

cover: ## unit test coverage of libs and services, without real servers
	go test -short -coverprofile=coverage.out -coverpkg=github.com/carillon-timer/carillon/libs/...,github.com/carillon-timer/carillon/services/... \
	  github.com/carillon-timer/carillon/libs/... github.com/carillon-timer/carillon/services/...
	@go tool cover -func=coverage.out | tail -1

SEED   ?=
SEEDS  ?= $(if $(SEED),1,100)
RUNS   ?= 1
LENGTH ?= 24h
ARGS   ?=

sim: ## simulate the whole system, with faults by seed: SEEDS=100 of LENGTH=24h each; SEED=7 RUNS=20 repeats one seed
	go test -count=1 -timeout 0 ./e2e/sim -run 'TestSeeds$$' -args -seed $(or $(SEED),1) -seeds $(SEEDS) -runs $(RUNS) -length $(LENGTH) $(ARGS)

sim-mutants: ## check that the simulation catches deliberate bugs, each within 100 seeds of 2 h
	go test -v -count=1 -timeout 0 ./e2e/sim -run TestMutants -args -mutants

CHAOS ?=

chaos: build ## inject faults into real servers under load, about 50 minutes; writes the table of docs/fault-tolerance.md (CHAOS='kill|redis': only some)
	go run ./e2e/chaos/cmd/carillon-chaos -bin bin -run '$(CHAOS)' -json e2e/chaos/results.json -doc docs/fault-tolerance.md

chaos-cluster: build ## the same on clusters of Redis, Pulsar and MariaDB, whose nodes fail, about 40 minutes (CHAOS='cluster-redis|sentinel': only some)
	go run ./e2e/chaos/cmd/carillon-chaos -cluster -bin bin -run '$(CHAOS)' -json e2e/chaos/cluster-results.json -doc docs/fault-tolerance.md

isolation: build ## noisy-neighbour scenarios in full size, in one process and on real servers, with checks of lateness (10 minutes on an idle machine)
	@CARILLON_ISOLATION=full CARILLON_BIN=$(CURDIR)/bin CARILLON_TEST_REQUIRE=mysql,redis,pulsar exec scripts/with-servers.sh mysql redis pulsar -- \
	  go test -v -count=1 -timeout 30m ./e2e/scenario -run '^(TestHangingAppDelaysNoOther|TestBurstDelaysNoOtherApp|TestRateLimitedBurstTakesNoMemory)$$'

bench-peers: ## measure Carillon and its peers (asynq, River) one after the other on this machine, at each of RATES=1000,4000
	@exec scripts/bench-peers.sh $(RATES)

bench-smoke: build ## print the speed in one process and on real servers
	@exec scripts/with-servers.sh mysql redis pulsar -- go run ./e2e/load/cmd/carillon-load -bin bin

ARCH     ?= amd64,arm64
REGISTRY ?=
TAG      ?= $(VERSION)

images: ## build the six images as archives in dist/images, without a daemon (ARCH=amd64, REGISTRY=registry.example.com/team, TAG=v0.1.0)
	@scripts/images.sh dist/images -arch $(ARCH) -registry '$(REGISTRY)' -version $(TAG)

e2e-kube: ## the chart on a real Kubernetes, booted here (root) or named by KUBECONFIG: install, test, lost pods, upgrade, rollback, scenarios
	@exec scripts/kube/e2e.sh

e2e-compose: ## Dockerfile and compose file on a Docker engine, booted here (root) if none answers: images, callbacks, Prometheus, scale, kills, down
	@exec scripts/compose/e2e.sh

test-mysql: ## the store's tests on compose's MySQL version; make test uses MariaDB (Docker, or inside scripts/compose/in.sh)
	@exec scripts/compose/mysql.sh

test-versions: build ## the suites and some scenarios on other versions of each server (VERSIONS='mysql-9.7 valkey-8.1': only some)
	@exec scripts/test-versions.sh $(VERSIONS)

test-galera: ## the store's tests on a Galera cluster with writers on all nodes, with nodes killed, and without each capability
	@CARILLON_TEST_REQUIRE=mysql,galera exec scripts/with-servers.sh mysql galera -- \
	  go test -count=1 -timeout 20m -run 'Galera|MySQLAddresses|MySQLWithout|Restore|BackupIs' ./libs/store/sqlstore

lint: ## golangci-lint over all modules, and buf lint
	bin/golangci-lint run $$(go list -m -f '{{.Dir}}/...')
	cd deploy/tools && GOWORK=off ../../bin/golangci-lint run ./...
	cd e2e/collector && GOWORK=off ../../bin/golangci-lint run ./...
	cd e2e/peers && GOWORK=off ../../bin/golangci-lint run ./...
	cd proto && ../bin/buf lint

generate: ## regenerate committed files: Go from protos, OpenAPI description, commands, metrics, the chart's copies and README, time zones
	scripts/tzdata.sh
	cd proto && ../bin/buf generate
	cd e2e/sim && GOROOT=$$(go env GOROOT) go run ./cmd/storegates > storegates.go # it reads Go source
	go test ./services/api -run TestOpenAPIIsCurrent -update
	go run ./services/cli/cmd/carillon reference --markdown docs/commands.md
	go test ./services/wiring -run TestMetricsPageIsCurrent -update
	cp deploy/prometheus/alerts.yml deploy/grafana/carillon.json helm/carillon/files/
	cd deploy/tools && GOWORK=off go run ./cmd/values ../../helm/carillon

docs: ## build the site of the documents into dist/docs and check its links; needs Node for the diagrams
	@scripts/docs.sh

# The packages and their tests are compiled, but not linked. Lint vets them.
modules: ## compile each module without the workspace, which hides missing requirements; test the one outside it
	@for m in $(MODULES); do echo "GOWORK=off go list -export: $$m"; (cd $$m && GOWORK=off go list -test -export ./... >/dev/null) || exit 1; done
	cd e2e/peers && GOWORK=off go vet ./... && GOWORK=off go test ./...

tools: ## golangci-lint, buf and protoc-gen-go in their pinned versions, into bin/
	@scripts/tools.sh

clean: ## remove build results (not ./data)
	rm -rf bin dist .cache/tests coverage.out
