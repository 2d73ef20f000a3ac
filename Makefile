# make            lists the targets
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/parley-server/parley/internal/program.revision=$(VERSION)
GO ?= go
# The browser that the tests start. Chromium's headless shell is preferred: it has the same engine
# without the window around it, and needs a third less time.
BROWSER = for b in chromium-headless-shell chromium chromium-browser google-chrome; do command -v $$b && break; done
CHROMIUM ?= $(shell $(BROWSER))

GO_FILES := $(shell find . -name '*.go' -not -path './web/node_modules/*')
APP_FILES := $(shell find apps -type f)
WEB_FILES := $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/dist/*' -not -path 'web/e2e/*' 2>/dev/null)

.PHONY: help build addon release run test ci test-go test-race test-web test-browser test-claude conformance check lint generate bench clean need-go need-node chromium postgres

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

build: bin/parley ## bin/parley, with the pages inside

bin/parley: $(GO_FILES) $(APP_FILES) web/dist/index.html go.mod go.sum | need-go
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/parley

# Home Assistant builds an add-on from its folder alone, so the programs go into it.
addon: bin/addon/parley-amd64 bin/addon/parley-aarch64 ## bin/addon, a folder for /addons of a Home Assistant
	cp -R addon/. bin/addon

bin/addon/parley-amd64: GOARCH := amd64
bin/addon/parley-aarch64: GOARCH := arm64
bin/addon/parley-%: $(GO_FILES) $(APP_FILES) web/dist/index.html go.mod go.sum | need-go
	@mkdir -p bin/addon
	CGO_ENABLED=0 GOOS=linux GOARCH=$(GOARCH) $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/parley

release: web/dist/index.html | need-go ## tags RELEASE, such as v0.2.0, with the pages in it
	$(GO) run ./internal/release $(RELEASE)

web/dist/index.html: $(WEB_FILES) web/node_modules/.package-lock.json
	cd web && npm run --silent build

web/node_modules/.package-lock.json: web/package-lock.json | need-node
	cd web && npm ci --no-fund --no-audit --loglevel=error
	@touch $@

run: build ## builds, and starts the demo: every app with its data, no key, no network
	./bin/parley demo $(ARGS)

STAGES = test-go test-race test-web test-browser

test: ## all tests, the browser's too
ci: ## all tests, and those with the real Claude CLI
ci: STAGES += test-claude
test ci: | chromium postgres
	@$(MAKE) --no-print-directory -j2 --output-sync=target LANES=2 $(STAGES)

# Two lanes side by side: the browser's tests wait a lot, Go's compute. Go's are nice, so that the
# pages are as fast as people know them. What a stage says is shown when it has ended.
# While npm makes the pages, go vet looks at everything.
ifdef LANES
test-race: | test-go
test-browser: | test-web
test-claude: | test-browser
vet test-go test-race: GO := nice -n 5 $(GO)
endif

# With -trimpath, these share what is compiled for bin/parley, and every clone what was compiled for
# another. What the race detector watches is compiled apart, in test-race.
test-go: web/dist/index.html | need-go postgres vet ## Go tests of what is not in test-race
	$(GO) test -trimpath $(TESTED) -parallel 8 $$($(GO) list ./... | grep -vxFf <($(GO) list $(RACE)))
	$(GO) test -trimpath $(TESTED) -run '$(UNRACED)|$(PAIRS)' ./internal/engine ./internal/toolbox ./internal/tool/homeassistant ./apps/notes

.PHONY: vet
vet: | need-go
	$(GO) vet -trimpath ./...

# Compilers and tests collect garbage less often: it was a quarter of what the engine's tests
# computed. Servers that tests start as processes of their own have the default.
test-go test-race: export GOGC := 400

# What a package's tests have at most: twice what the longest take on two very busy
# cores. One that hangs says where, before the whole run is given up.
PATIENCE := 30m

# go vet has looked at everything with more checks than go test would: for these, go test
# would analyse every package and dependency again, and once more for the race detector.
TESTED := -vet=off -timeout $(PATIENCE)

# What runs concurrently has its tests under the race detector, and only there: they
# are the same tests. The SQLite engine is C turned into Go and takes minutes with
# it; the stores and the program are tested without, their callers with it. So are
# the engine's tests over real stores, one that counts what is read in 1,200 turns,
# those that keep SQLite or the checks of schemas busy with hostile input, those of one goroutine with
# much data, and the scripted model and the
# descriptions of APIs, which share nothing between calls. The tests without the
# detector wait for processes and databases more than they compute.
#
# PAIRS are in both: a second crash during the recovery from a first one is only tried
# without the detector.
PAIRS := TestCrashAtEveryPoint|TestRewindCrashAtEveryPoint|TestCrashWhileCondensing|TestOwnInputCrashAtEveryPoint
UNRACED := (TestPairs$$|TestLimitsHoldAtOnce|TestCrashWhileStepsAreCondensed|TestSecretsNeverComeOut|TestForkHasItsTurns|TestSweepLeavesNothing)/(sqlite|postgres)|TestCondensingIsLinear|TestCondensedFoldIsTheSame|TestAttachedIsBounded|TestSchemaBomb|TestAnalyze(Attacked|KeepsLittleAside|Functions)|TestNotesProcess_
RACE := . ./client/... ./internal/api/... ./internal/engine/... ./internal/eventlog/... ./internal/wire/... ./internal/mcpserver/... \
	./internal/toolbox/... ./internal/runtime/... ./internal/store/mem/... $(addprefix ./internal/model/,anthropic gemini mistral modeltest openai transport) ./internal/redact/... ./internal/sse/... ./internal/telemetry/... ./apps/... \
	./internal/sim/... ./internal/proc ./internal/auth ./internal/push $(addprefix ./internal/tool/,ask command homeassistant mcp notion rest slack webhook)

# At its end each program under the detector would wait for a second, if it did not say otherwise.
test-race: export GORACE := atexit_sleep_ms=50
test-race: web/dist/index.html | need-go postgres ## Go tests of what runs concurrently, with the race detector
	$(GO) test -race -trimpath $(TESTED) -skip '$(UNRACED)' $(RACE)

test-web: web/node_modules/.package-lock.json ## the page's unit tests and types
	cd web && npm run --silent typecheck && npm test --silent

test-browser: build chromium ## the pages in a real browser, on the real server
	cd web && CHROMIUM="$${CHROMIUM:-$$($(BROWSER))}" npm run --silent e2e

# Its Node is newer than the pages', and comes with it.
CONFORMANCE := internal/mcpserver/conformance

conformance: $(CONFORMANCE)/node_modules/.package-lock.json | need-go ## the MCP conformance suite against our transport and our client, both eras
	$(GO) run ./$(CONFORMANCE) $(ARGS)

$(CONFORMANCE)/node_modules/.package-lock.json: $(CONFORMANCE)/package-lock.json | need-node
	cd $(CONFORMANCE) && npm ci --no-fund --no-audit --loglevel=error
	@touch $@

# The Claude CLI is no part of Parley. The lock names the version that the tests are about.
CLAUDE := internal/runtime/claudecli/real

test-claude: $(CLAUDE)/node_modules/.package-lock.json build | need-go chromium ## the runtime claude with the real Claude CLI, which npm installs
	$(GO) vet -trimpath -tags claude ./$(CLAUDE)
	$(GO) test -trimpath $(TESTED) -tags claude -count=1 ./$(CLAUDE)
	cd web && CHROMIUM="$${CHROMIUM:-$$($(BROWSER))}" npm run --silent e2e -- major-flow.test.ts -t 'on the Claude CLI'

$(CLAUDE)/node_modules/.package-lock.json: $(CLAUDE)/package-lock.json | need-node
	cd $(CLAUDE) && npm ci --ignore-scripts --no-fund --no-audit --loglevel=error || { echo "npm could not install the Claude CLI (174 MB), so the runtime claude is not tested with it"; exit 1; }
	@touch $@

check: test lint generated ## tests, lint, generated files, import table

lint: | need-go vet ## gofumpt, vet, staticcheck
	@out="$$($(GO) tool -modfile=tools/go.mod gofumpt -l $$(git ls-files '*.go'))"; \
	if [ -n "$$out" ]; then echo "not formatted (gofumpt -w):"; echo "$$out"; exit 1; fi
	$(GO) tool -modfile=tools/go.mod staticcheck ./...
	$(GO) mod verify

.PHONY: generated
generate: | need-go ## rewrites the files that are made from others
	$(GO) test -trimpath -vet=off ./web -run TestTypes -update

generated: generate ## fails when they differ from what is committed
	@git diff --exit-code -- web/src/api/types.gen.ts || { echo "run make generate and commit the result"; exit 1; }

bench: build ## the figures of docs/bench.md, as ratios to a floor in the same run
	$(GO) run ./internal/bench $(ARGS)

clean: ## removes what was built
	rm -rf bin web/dist/* web/node_modules

need-go:
	@command -v $(GO) >/dev/null || { echo "Parley needs Go 1.26 or newer: https://go.dev/dl, or apt-get install golang"; exit 1; }

need-node:
	@command -v npm >/dev/null || { echo "The pages need Node 20.19 or newer with npm: https://nodejs.org, or apt-get install nodejs npm where that is new enough"; exit 1; }

# As root on Debian the browser is installed; elsewhere it is asked for.
chromium:
	@if [ -n "$(CHROMIUM)" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Chromium from Debian's packages"; \
		apt-get install -y -qq chromium-headless-shell >/dev/null 2>&1 || { apt-get update -qq; apt-get install -y -qq chromium-headless-shell >/dev/null 2>&1; } || apt-get install -y -qq chromium >/dev/null; \
	else echo "The browser's tests need Chromium: apt-get install chromium-headless-shell"; exit 1; fi

# The tests start PostgreSQL themselves, from its binaries alone. Debian's package
# would start a service of its own: policy-rc.d keeps it from that, where nobody
# has a policy already.
postgres:
	@for dir in /usr/lib/postgresql/*/bin "$$(pg_config --bindir 2>/dev/null || true)" "$$(dirname "$$(command -v initdb || true)")"; do \
		if [ -x "$$dir/initdb" ]; then exit 0; fi; \
	done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "The tests of the store need PostgreSQL's binaries, of version 14 or newer: apt-get install postgresql"; exit 1; \
	fi; \
	echo "installing PostgreSQL from Debian's packages"; \
	policy=/usr/sbin/policy-rc.d; \
	if [ ! -e $$policy ]; then printf '#!/bin/sh\nexit 101\n' > $$policy; chmod 755 $$policy; trap 'rm -f /usr/sbin/policy-rc.d' EXIT; fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get install -y -qq postgresql >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq postgresql >/dev/null; } || \
		{ echo "PostgreSQL could not be installed: apt-get install postgresql says why"; exit 1; }
