# Everything is built below build/. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Where Go's own archive puts it, for those who have not set PATH.
export PATH := $(PATH):/usr/local/go/bin
# A clone owned by another user would otherwise fail to build.
export GOFLAGS ?= -buildvcs=false
# The race detector needs cgo.
export CGO_ENABLED := 1

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 6
SOAK ?= 1

# Parts of `make test`, in the order in which they begin: long ones first. Those that
# measure time run after all others, with nothing beside them.
TEST_PARTS := test-faults test-go test-command test-gateway test-peers test-c test-python test-forks fuzz-c test-windows \
	test-perl test-examples test-conformance test-launcher fuzz-go test-model
TEST_ALONE := test-cost test-sustained
CHECK_PARTS := check-packages check-command check-python check-c check-vet check-perl check-sizes
LINT_PARTS := lint-c lint-abi lint-go lint-python lint-generated lint-layers lint-size lint-figures lint-links lint-perl lint-shell

# The command, one of its manual pages, which are made together, and what both are made of.
command := build/bin/nearcall
manual := build/man/nearcall.1
build_command := go build -C cmd/nearcall -o ../../$(command) . && touch $(command)
# How it was made last: not as for users, where check did it.
command_made := build/command-made
command_sources = go.mod $(shell find client cmd embed forward gateway handoff intercept internal observe resident server spin status tests/programs/demo -type f ! -name '*_test.go')
.SECONDEXPANSION:

# Makes the parts that are given, as tools/runparts says. A signal reaches it itself.
parts = go build -C tools -o ../build/tools/runparts ./runparts && exec build/tools/runparts

# Modules with programs of others.
modules_of_others := benchmarks/peers gateway/nats/tests tests/resident/real

# What tests start, of every language, and how that is made.
what_tests_start := build-programs build-python build-perl build-tests build-launcher
side_by_side := --jobs=$$(nproc) --output-sync=target

# What parts need, for those who make one alone. Where all of them are made it has been
# made before, once, and none makes it while another uses it.
needs = $(if $(NEARCALL_BUILT),,$(1))

##@ Use

help: ## show this list
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: deps-build ## forked Perl, Python and C workers call Go; prints a latency table
	@mkdir -p build
	@echo 'building; what it says goes to build/demo.log'
	@$(MAKE) -j 3 build-c build-perl wheel demo-go >build/demo.log 2>&1 || { cat build/demo.log; exit 1; }
	@PYTHON=build/wheel/bin/python examples/demo/run

build: build-go build-c build-launcher $(manual) ## libnearcall and the commands nearcall and nearcall-run, in build/

# It makes what is not there, or older than its sources, so that after `make build` it
# compiles nothing: with sudo, what it made here would be root's.
install: build-c build-launcher $(command) $(manual) ## libnearcall, its header and pkg-config file, nearcall, nearcall-run (PREFIX, DESTDIR)
	@$(MAKE) -C libnearcall install PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)'
	@install -D -m 0755 -t '$(DESTDIR)$(PREFIX)/bin' build/bin/nearcall build/bin/nearcall-run
	@install -D -m 0644 -t '$(DESTDIR)$(PREFIX)/share/man/man1' build/man/*.1 resident/launcher/nearcall-run.1
	@build/bin/nearcall completion bash | install -D -m 0644 /dev/stdin '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/nearcall'
	@[ -n '$(DESTDIR)' ] || [ "$$(id -u)" != 0 ] || PATH="$$PATH:/usr/sbin:/sbin" ldconfig

##@ Work on it

deps: ## install the Debian packages that builds and tests need, or say which
	@tools/check-go
	@tools/install-debian-packages tools/debian-packages-build.txt tools/debian-packages.txt

deps-build: ## the same for builds and the demonstration alone
	@tools/check-go
	@tools/install-debian-packages tools/debian-packages-build.txt

deps-bench: ## the same for the benchmarks' peers; what is missing is told, and not measured
	@tools/install-debian-packages tools/debian-packages-benchmarks.txt || true

check: deps ## the inner loop: build, vet and the quick tests of all languages, in some minutes
	@$(parts) -name check -first check-built -beside '$(CHECK_PARTS)' -lanes 3 -bound 10m

test: deps ## every test there is, some twenty minutes on two processors
	@$(parts) -name test -first built -beside '$(TEST_PARTS)' -alone '$(TEST_ALONE)'

lint: deps ## formats, static analysis, layers, sizes, links, stale generated files
	@$(parts) -name lint -beside '$(LINT_PARTS)'

generate: check-go ## write the constants of every language from spec/*.json
	@go run -C tools ./generate -root ..

fuzz: deps fuzz-go fuzz-c ## every fuzz target for FUZZ_SECONDS (6)

bench: deps deps-bench build build-perl build-python ## all measurements, 50 minutes at most after the bindings' build; README, docs/measured.md and report show them
	@benchmarks/run

bench-quick: deps deps-bench build build-perl build-python ## the most important in a minute and a half; a report in build/benchmarks/results
	@benchmarks/run -quick

bench-compare: deps ## fails when calls are over 5 % slower than in the revision BASE
	@tools/bench-compare '$(BASE)'

soak: deps build build-perl build-python ## what CI runs, in larger numbers (times SOAK); keeps the counts
	@$(MAKE) -C libnearcall test-programs
	@go build -o build/conformance/runner ./conformance/runner
	@SOAK=$(SOAK) tests/soak

clean: ## remove all that was built
	@rm -rf build
	@$(MAKE) -C libnearcall clean

##@ Parts of build

build-go: check-go build-programs ## every Go module but those of others (benchmarks, gateway/nats/tests, tests/resident/real), build/bin/nearcall, what tests start
	@modules="$$(tools/go-modules $(modules_of_others))"; for module in $$modules; do go build -C "$$module" -o /dev/null ./...; done

build-programs: check-go $(command_made) ## build/bin/nearcall, and the other programs and the library of Go that tests start
	@go build -o build/testserver ./tests/programs/testserver
	@go build -C server/eventloop -o ../../build/eventserver ./eventserver
	@go build -o build/testgiver ./tests/programs/testgiver
	@go build -buildmode=c-shared -o build/libtestlibrary.so ./tests/programs/testlibrary
	@$(build_command)

$(command): $$(command_sources) $(command_made)
	@tools/check-go && $(build_command)

$(command_made): always
	@mkdir -p $(@D); made='$(filter $(quick_flags),$(GOFLAGS))'; [ -e $@ ] && [ "$$(<$@)" = "$$made" ] || echo "$$made" >$@

$(manual): $$(command_sources)
	@tools/check-go && go run -C cmd/nearcall ./internal/manual -output ../../build/man

build-c: ## libnearcall, static and shared
	@$(MAKE) -C libnearcall all

build-launcher: ## nearcall-run, static
	@$(MAKE) -C resident/launcher

build-perl: ## the Perl binding, in build/perl
	@tools/build-perl

build-python: ## the Python binding's wheel, installed in build/venv
	@tools/build-python

# Parts of check name an archive.
build-perl build-python: $(if $(NEARCALL_ARCHIVE),build-c)

build-tests: build-c ## the programs of C that tests run
	@$(MAKE) -C libnearcall test-programs

built: ## all of these side by side
	@$(MAKE) $(side_by_side) build-go $(what_tests_start)

wheel: ## the same in build/python-wheel/dist, with what building it needs alone
	@tools/build-python tools/python-requirements-build.txt wheel

demo-go: check-go
	@CGO_ENABLED=0 go build -o build/examples/server ./examples/hello/server

##@ Parts of check: what is quick of each

# Programs are compiled as the library is that tests load, so that nothing is compiled twice,
# and without what debuggers alone read.
quick_flags := -buildmode=pie -ldflags=-w
check check-built $(CHECK_PARTS): export GOFLAGS := $(filter-out $(quick_flags),$(GOFLAGS)) $(quick_flags)
# The bindings are linked with the libnearcall that is tested, instead of compiling it into each.
check check-built $(CHECK_PARTS): export NEARCALL_ARCHIVE := $(CURDIR)/build/lib/libnearcall.a

# Programs of Go that no test starts are left to check-vet.
check-built:
	@$(MAKE) $(side_by_side) $(what_tests_start)

check-packages: check-go
	@tools/check-packages

# What it says of the benchmarks and the programs is all that is asked of them here.
check-vet: check-go
	@modules="$$(tools/go-modules $(modules_of_others))"; failed=0; for module in $$modules; do go vet -C "$$module" ./... || failed=1; done; exit $$failed

check-c:
	@$(MAKE) -C libnearcall test-native

check-perl:
	@tools/test-perl --quick

check-python:
	@tools/test-python --quick

check-command: check-go
	@cd cmd/nearcall && go test -short -vet=off ./...

check-sizes: lint-layers lint-size lint-generated

##@ Parts of test

test-go: check-go $(call needs,build-launcher) ## Go packages, with the race detector
	@tools/test-go

test-c: $(call needs,build-go) ## libnearcall: plain, with sanitizers (two threads as two processes), under valgrind
	@$(MAKE) -C libnearcall test test-asan test-valgrind test-tsan

test-launcher: ## nearcall-run, by processes that play the resident: plain, with sanitizers
	@$(MAKE) -C resident/launcher test TESTS='tests --deselect tests/test_cost.py'
	@$(MAKE) -C resident/launcher test-asan

test-cost: $(call needs,build-launcher) ## what nearcall-run costs
	@$(MAKE) -C resident/launcher test TESTS=tests/test_cost.py

test-sustained: check-go ## calls without a pause stay hot
	@go test -count=1 -vet=off -v ./tests/sustained

test-model: ## the model of shared memory holds, and each mutant of it fails
	@spec/model/check

test-perl: $(call needs,build-go build-launcher) ## the Perl binding
	@tools/test-perl

test-python: $(call needs,build-go) ## the Python binding
	@tools/test-python

test-command: $(call needs,build-c build-launcher build-perl build-python) ## the nearcall command, and the code it generates
	@tools/python-environment tools/python-requirements-pyright.txt venv-pyright >/dev/null
	@cd cmd/nearcall && go test -race -vet=off ./...

test-conformance: $(call needs,build build-perl build-python) ## every client and server against the vectors
	@conformance/run

test-examples: $(call needs,build build-perl build-python) ## each example, driven as its users would
	@examples/test

test-windows: check-go ## what runs on Windows, under Wine; what runs on macOS is compiled
	@tools/test-windows

test-faults: $(call needs,build build-perl build-python) ## kills, stops, bad input, failing system calls
	@tests/run

test-forks: $(call needs,built) ## forks from every language, by the ten thousand
	@tests/forks

test-peers: check-go deps-bench ## the benchmarks' peers echo what they are sent, each with up to 64 callers
	@benchmarks/run -build peers
	@go test -C benchmarks/peers -count 1 -vet=off -timeout 12m . ./program

test-gateway: check-go ## gateways over NATS
	@go test -C gateway/nats -race -vet=off ./...

fuzz-go: check-go ## Go fuzz targets
	@tools/fuzz-go $(FUZZ_SECONDS)

fuzz-c: ## C fuzz targets
	@$(MAKE) -C libnearcall fuzz FUZZ_SECONDS=$(FUZZ_SECONDS)

##@ Parts of lint

lint-generated: check-go ## generated files are fresh
	@go run -C tools ./generate -root .. -check

lint-layers: check-go ## nothing imports what is above it
	@go run -C tools ./checklayers -root ..

lint-size: check-go ## functions of at most 70 lines, files of at most 600
	@go run -C tools ./checksize -root ..

lint-figures: check-go ## figures in README and docs, pictures and report are those of the last measurement, and tables of docs/scaling.md are those that are computed
	@go run -C benchmarks . -root .. -check
	@go run -C tools ./scaling -root .. -check

lint-links: check-go ## links between pages lead somewhere, and no page has a merge that is not finished
	@go run -C tools ./checklinks -root ..

lint-go: check-go ## gofmt, go vet, staticcheck
	@tools/lint-go

lint-shell: ## shellcheck
	@tools/lint-shell

lint-abi: ## the shared library's binary interface is the one that was last accepted
	@tools/lint-abi

lint-c: ## warnings as errors, the compiler's analyzer, cppcheck
	@tools/lint-c

lint-perl: ## syntax and manual pages
	@tools/lint-perl

lint-python: ## ruff and mypy
	@tools/lint-python

check-go:
	@tools/check-go

.PHONY: help demo wheel demo-go deps-build build install deps deps-bench test lint generate fuzz bench bench-quick bench-compare soak clean \
	build-go build-programs build-c build-launcher build-perl build-python build-tests built check check-built $(CHECK_PARTS) $(TEST_PARTS) $(TEST_ALONE) \
	$(LINT_PARTS) check-go always
