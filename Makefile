# make help lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export GO ?= go
# A Go that is older than go.mod asks for fetches the right one by itself.
export GOTOOLCHAIN ?= auto
TOOL    := $(GO) tool -modfile=tools/go.mod
# A folder is a prerequisite too: its time changes when a file in it goes.
SOURCES := $(shell find cmd internal client api go.mod go.sum \( -type d -o -type f ! -name '*_test.go' \) 2>/dev/null)

# What `make generate` writes and `make verify` proves current.
GENERATED := internal/store/dbsqlc api/openapi.yaml api/openapi-3.0.json docs/lifecycle.md docs/parameters.md web/src/api.ts internal/console/dist

SCRIPTS := $(filter-out %.go,$(wildcard scripts/*)) .ci/run

IMAGE     ?= steward:latest
ARGS      ?= serve --demo $(shell scripts/data-flag)
PACKAGES  ?= ./...
FUZZTIME  ?= 60s
BENCH     ?= .
# How many packages and tests run at once.
SIDE_BY_SIDE ?= $(eval SIDE_BY_SIDE := $(shell scripts/side-by-side))$(SIDE_BY_SIDE)
# Of the packages that are asked for, those begin first that take longest: at the end they would have the cores to themselves, and wait half the time.
LONGEST := $(addprefix steward/internal/,platform/kubernetes watch engine/mysql platform/host engine/postgresql api) \
	$(addprefix steward/test/,console e2e crash kubernetes clients network)
IN_ORDER = all=$$($(GO) list $(PACKAGES)); { printf '%s\n' $(LONGEST) | grep -xF "$$all" || true; printf '%s\n' $$all | grep -vxF "$$(printf '%s\n' $(LONGEST))" || true; }
# What only computes is compiled without the race detector, which is for code of ours: it goes through each byte that is hashed or
# compressed. `make verify` proves that no generic code of other packages comes from there: the linker keeps one copy of that for
# the whole program, which would then hide races everywhere.
UNWATCHED := compress/flate compress/gzip hash/crc32 hash/fnv crypto/md5 crypto/sha1 \
	$(addprefix crypto/internal/fips140/,sha256 sha512 aes/... bigmod nistec/... edwards25519/...) \
	$(addprefix golang.org/x/crypto/,chacha20 chacha20poly1305 internal/alias internal/poly1305) \
	github.com/klauspost/compress/zstd/internal/xxhash
RACE := -race $(foreach pattern,$(UNWATCHED),-gcflags=$(pattern)=-race=false)
# Of bench's packages, those with tests: to link the others takes a second each, and nothing in them would run. Lint compiles them.
TESTED_BENCH := $(patsubst %/,steward/%,$(sort $(dir $(shell grep -lE '^func (Test[^M]|Fuzz|Example)' bench/*_test.go bench/*/*_test.go))))
# At its end the race detector waits a second for what other threads may still report.
export GORACE ?= atexit_sleep_ms=50
# Flags of bench/failover: FAILOVER=-help lists them.
FAILOVER  ?=
# Flags of bench/backup: BACKUP=-help lists them.
BACKUP    ?=
# Flags of bench/monitor: MONITOR=-help lists them.
MONITOR   ?=

##@ Use

run: setup build ## Install what is missing, build, and serve ./data with a demo (ARGS='serve …' for other flags)
	@exec bin/steward $(ARGS)

build: bin/steward ## Build bin/steward

bin/steward: $(SOURCES)
	@$(GO) env GOVERSION | grep -qE '^go1\.(2[1-9]|[3-9][0-9])' || { echo 'Go 1.21 or newer is needed; see go.dev/dl' >&2; exit 1; }
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o $@ ./cmd/steward
	@touch $@

image: build ## Pack bin/steward as a container image, without privileges: bin/steward-image.tar (IMAGE=name:tag)
	$(GO) run scripts/image.go -name '$(IMAGE)'

setup: ## Install PostgreSQL, MariaDB, HAProxy and bubblewrap, starting none of them
	@scripts/setup

engines: ## Fetch further server versions for tests (ENGINES='NAME...', see scripts/fetch-engines --list)
	@scripts/setup --engines
	@scripts/fetch-engines $(ENGINES)

##@ Develop

check: lint verify test-quick test test-thorough ## All that CI runs

# Those packages of internal/ that take long, the others, and those of test/ are tested side by side: at the end of each, few tests are left,
# which wait, and the others are linked most of the time.
# Results aren't kept: they depend on the servers that are installed. Linked programs are. No debugger looks at a test, so that none is
# linked with what one reads. Lint vets, tests too.
test: engines-ci ## Test what each change has to pass, our code with the race detector (PACKAGES=./...)
	@$(MAKE) -k -j3 SIDE_BY_SIDE='$(SIDE_BY_SIDE)' test-inside test-outside test-rest

# Tests whose names end in Thorough prove for another engine, or longer, what those of `make test` prove for one.
test-thorough: ## Test what make test leaves: further engines, ways and moments to die at (Test…Thorough)
	@$(MAKE) test CASES='-run Thorough' PACKAGES='$(sort $(dir $(shell grep -rlE --include='*_test.go' '^func Test[A-Za-z]*Thorough\b' internal test | sed 's,^,./,')))'

CASES   ?= -skip Thorough
LINKED := -vet=off -ldflags=-w
TESTED := -timeout 30m $(SIDE_BY_SIDE) $(CASES)

# Processor time is scarcer than memory: the collector runs less often.
test-inside:
	@packages=$$($(IN_ORDER)); packages=$$(grep -E '^steward/internal/' <<<"$$packages" | grep -xF "$$(printf '%s\n' $(LONGEST))" || true); \
	if [ -n "$$packages" ]; then GOGC=300 scripts/test bin/tests/race $(LINKED) $(RACE) -- $(TESTED) -- $$packages; fi

test-rest:
	@packages=$$($(GO) list $(PACKAGES) | grep -vE '^steward/(test/|bench)' | grep -vxF "$$(printf '%s\n' $(LONGEST))" || true); \
	if [ -n "$$packages" ]; then GOGC=300 scripts/test bin/tests/race $(LINKED) $(RACE) -- $(TESTED) -p 1 -- $$packages; fi

# Tests below test/ ask programs of their own, which a race detector in the tests' process doesn't see, and those of bench/
# are of no product. Both are compiled without cgo, as the program is that they ask: what both need is compiled once.
test-outside:
	@packages=$$($(IN_ORDER)); packages=$$(grep -x -e 'steward/test/.*' $(TESTED_BENCH:%=-e %) <<<"$$packages" || true); \
	if [ -n "$$packages" ]; then GOGC=300 CGO_ENABLED=0 scripts/test bin/tests/plain $(LINKED) -- $(TESTED) -- $$packages; fi

test-quick: ## What needs no server, for an editor's loop (PACKAGES=./...)
	@CGO_ENABLED=0 $(GO) test -short $(LINKED) $(PACKAGES) | grep -v 'no test files' || test "$${PIPESTATUS[0]}" = 0

test-engines: engines-ci ## The engines' suites on every server version that is there (make engines)
	STEWARD_TEST_ENGINES=all $(GO) test -race -timeout 60m $(SIDE_BY_SIDE) ./internal/engine/... ./internal/platform/host ./internal/platform/kubernetes
	STEWARD_TEST_ENGINES=all $(GO) test -timeout 60m $(SIDE_BY_SIDE) ./test/e2e

test-haproxy: engines-ci ## The platform's and crash suites with HAProxy as the gateway (make test: with the kernel's, as root)
	STEWARD_TEST_GATEWAY=haproxy $(GO) test -race -count=1 -timeout 30m $(SIDE_BY_SIDE) ./internal/platform/host; host=$$?; \
	STEWARD_TEST_GATEWAY=haproxy $(GO) test -count=1 -timeout 30m $(SIDE_BY_SIDE) ./test/crash && exit $$host

test-crash: engines-ci ## Kill steward at every step of everything (make test and test-thorough: at some)
	STEWARD_CRASH=all $(GO) test -timeout 120m $(SIDE_BY_SIDE) ./test/crash && STEWARD_CRASH=all $(GO) test -timeout 120m -run TestKilled ./test/kubernetes

e2e: engines-ci ## The built binary with real databases, and kills at every step
	$(GO) test -timeout 30m $(SIDE_BY_SIDE) -count=1 ./test/...

lint: setup-web ## golangci-lint, gofumpt, the console's types, and the scripts' syntax
	cd web && node_modules/.bin/tsc
	$(TOOL) golangci-lint run ./...
	$(TOOL) golangci-lint run --build-tags failpoint ./internal/failpoint/...
	@for script in $(SCRIPTS); do bash -n $$script; done

format: ## Format all Go files
	$(TOOL) gofumpt -w $$(git ls-files --cached --others --exclude-standard '*.go' | grep -v /dbsqlc/)

generate: setup-web ## Write generated files anew: queries, OpenAPI document, lifecycle diagram, parameters, the console
	$(TOOL) sqlc generate
	$(GO) run scripts/lifecycle.go >docs/lifecycle.md.new
	mv docs/lifecycle.md.new docs/lifecycle.md
	$(GO) run scripts/parameters.go >docs/parameters.md.new
	mv docs/parameters.md.new docs/parameters.md
	$(GO) generate ./...
	$(GO) run scripts/apitypes.go >web/src/api.ts.new
	mv web/src/api.ts.new web/src/api.ts
	$(GO) run scripts/console.go

pictures: setup-web ## Make README's pictures of the console anew, in Chromium
	STEWARD_PICTURES=$(CURDIR)/docs/pictures $(GO) test ./test/console -run 'TestConsole$$' -count=1

verify: ## Prove generated files, modules and idioms current
	scripts/verify $(GENERATED)
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	cd tools/kube && $(GO) mod tidy -diff
	$(GO) fix -diff ./...
	! for archive in $$($(GO) list -race -export -f '{{.Export}}' $(UNWATCHED)); do $(GO) tool nm $$archive; done | grep -E ' T .*\[go\.shape'

fuzz: ## Run every fuzz target for FUZZTIME (FUZZTIME=60s)
	scripts/fuzz $(FUZZTIME)

bench: setup-build ## Measure steward against floors and peers (BENCH=.)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime 1x -timeout 60m ./bench/

bench-failover: setup-build ## Measure failover against Patroni in the same run (FAILOVER='-fault kill9 -rounds 5 …')
	@scripts/bench-peers
	$(GO) run ./bench/failover $(FAILOVER)

bench-backup: setup-build ## Measure backup and restore against pipelines and pgBackRest (BACKUP='-size 2 …')
	@scripts/bench-peers
	$(GO) run ./bench/backup $(BACKUP)

bench-monitor: setup-build ## Measure checks of services against a bare client and blackbox_exporter (MONITOR='-services 5000 …')
	@scripts/bench-peers
	$(GO) run ./bench/monitor $(MONITOR)

sizes: build ## Lines, names and imports per package, and what the program weighs: to be read, not enforced
	@$(GO) run scripts/sizes.go

clean: ## Remove what was built; data and fetched engines stay
	rm -rf bin

help: ## Show this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What building and testing needs beyond running.
setup-build:
	@scripts/setup --build

# What the console is made with.
setup-web:
	@scripts/setup --web

# The server versions that CI tests with, and the API server of Kubernetes that tests ask.
engines-ci:
	@scripts/setup --build --engines
	@scripts/fetch-engines --ci
	@scripts/fetch-kube >/dev/null

.PHONY: run build setup engines check test test-inside test-rest test-outside test-thorough test-quick test-engines test-haproxy test-crash e2e lint format generate pictures verify fuzz bench bench-failover bench-backup bench-monitor sizes clean help setup-build setup-web engines-ci
