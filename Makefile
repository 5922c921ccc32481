# `make` lists the recipes. Each does its own set-up; nothing but Python, a C linker and Rust has to be there.
SHELL := /bin/sh
PYTHON ?= python3
UV := .tools/bin/uv
BIN := .venv/bin
RUST_SOURCES := $(shell find analyze capture replay -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
SETUP := .venv/.ready

# The Windows agent is C#: it is built and tested where a .NET 10 SDK is, and where none is, that is said.
HAS_DOTNET = sh $(DOTNET) true 2>/dev/null
NO_DOTNET = echo "not run, for want of a .NET 10 SDK on PATH: make agent, make agent-test, the tests of tests/capture that run it"

# The native tests call nothing of Python, so they need not its library (Debian: libpython3-dev) to be linked: what would
# be looked up there is left open, and only looked for when called.
# The flags go to pytest too, whose test of the recorder builds it with cargo: with others all would be compiled twice.
WITHOUT_LIBPYTHON = PYO3_BUILD_EXTENSION_MODULE=1 \
  RUSTFLAGS="-C link-arg=-Wl,--unresolved-symbols=ignore-all -C link-arg=-Wl,-z,lazy -C relro-level=partial"
CARGO_TEST = $(WITHOUT_LIBPYTHON) cargo test --quiet --locked --workspace

# All modules at once, so that every processor has work and what they share is compiled once; setuptools-rust, which takes
# them one after another, then finds them done. What it would set is set here: with other settings all is compiled twice.
NATIVE := SETUPTOOLS_RUST_CARGO_PROFILE=checkout PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON=$(CURDIR)/$(BIN)/python
COMPILE := $(NATIVE) cargo build --locked --profile checkout --lib --workspace --exclude iotrace-standalone \
  --features pyo3/extension-module

.PHONY: help setup demo test floors test-all test-deps check format lock bench fuzz mutants mutants-rust answers docs man wheel wheels windows recorder packages completions release agent agent-test schemas bundled pictures clean
.DEFAULT_GOAL := help

help: ## list the recipes
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 14

setup: $(SETUP) ## install everything into .venv

$(UV):
	@$(PYTHON) tools/install_uv.py .tools

.venv/.packages: requirements.lock $(UV)
	@$(PYTHON) tools/check_rust.py
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	@test -d target/checkout || echo "compiling the native modules: a minute or two the first time, seconds after a change"
	$(COMPILE) & compiling=$$!; \
	  $(UV) pip sync --quiet --require-hashes --python $(BIN)/python requirements.lock || { kill $$compiling; exit 1; }; \
	  wait $$compiling
	@rm -f $(SETUP)
	@touch $@

$(SETUP): .venv/.packages pyproject.toml $(RUST_SOURCES)
	@$(COMPILE) --quiet
	$(NATIVE) $(UV) pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python --editable .
	@touch $@

demo: $(SETUP) ## the whole story on a bundled recording, in a minute or two
	$(BIN)/iotrace demo

test-deps: ## programs and mounts that tests use: Debian's packages and tracefs (root; elsewhere it names them)
	@sh tools/test_deps.sh

test: $(SETUP) ## the tests, in a few minutes
	@if $(HAS_DOTNET); then $(MAKE) --no-print-directory agent; fi
	$(CARGO_TEST)
	$(WITHOUT_LIBPYTHON) $(BIN)/pytest -n 2 --dist loadgroup -m "not slow"
	@if $(HAS_DOTNET); then sh $(DOTNET) sh capture/agent/test.sh; else $(NO_DOTNET); fi

# The packages that tests and tools use are as new as ever: only what a user gets is old.
floors: $(SETUP) ## the tests with the oldest versions of the packages that iotrace asks for
	@test -x .tools/floors/bin/python || $(UV) venv --quiet --python $(PYTHON) .tools/floors
	$(UV) pip compile --quiet --extra analysis --resolution lowest-direct --no-emit-index-url \
	  --python-version 3.11 --output-file .tools/floors/floors.txt pyproject.toml
	$(UV) pip install --quiet --python .tools/floors/bin/python --requirements .tools/floors/floors.txt --group test
	$(NATIVE) $(UV) pip install --quiet --no-deps --no-build-isolation --python .tools/floors/bin/python --editable .
	.tools/floors/bin/pytest -n 2 --dist loadgroup -m "not slow"

test-all: $(SETUP) ## the tests, long ones included
	$(CARGO_TEST)
	$(BIN)/pytest

check: $(SETUP) build/rooms ## lint (Python, SQL, shell, container), types, import walls, schemas, Rust clippy and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=build/rooms $(BIN)/lint-imports --no-cache
	$(BIN)/pytest --quiet -n 0 -k is_current tests/schemas/test_tables.py tests/analyze/present/test_program.py
	$(BIN)/sqlfluff lint --disable-progress-bar analyze/queries
	$(BIN)/shellcheck --external-sources tools/*.sh tools/*/*.sh .ci/run
	$(BIN)/hadolint Containerfile
	cargo fmt --all --check
	cargo fmt --check --manifest-path capture/readers/fuzz/Cargo.toml
	cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	@if command -v cargo-deny > /dev/null; then cargo deny --offline check licenses bans sources; \
	  else echo "not run, for want of cargo-deny: licences and sources of crates (SECURITY.md)"; fi

# Type checkers cannot follow package-dir in an editable install.
build/rooms:
	@mkdir -p build/rooms/iotrace
	@for room in schemas capture replay analyze cli; do ln -sfn ../../../$$room build/rooms/iotrace/$$room; done

format: $(SETUP) ## put every file into its standard form
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format --quiet .
	cargo fmt --all

lock: $(UV) ## renew requirements.lock and Cargo.lock from pyproject.toml and Cargo.toml
	$(UV) pip compile pyproject.toml --extra analysis --group dev --universal --generate-hashes --no-emit-index-url --upgrade --quiet \
	  --python-version 3.11 --custom-compile-command "make lock" --output-file requirements.lock
	cargo update --quiet
	cargo update --quiet --manifest-path capture/readers/fuzz/Cargo.toml

bench: $(SETUP) ## figures against named peers in the same run, as ratios
	$(UV) pip install --quiet --python $(BIN)/python --group bench
	@for file in tests/bench/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

SECONDS_EACH ?= 60

fuzz: $(SETUP) ## damaged bytes against every reader (SECONDS_EACH=60; TARGET=etl for one)
	$(BIN)/python tests/fuzzing/run.py --seconds $(SECONDS_EACH) --target "$(TARGET)"

SAMPLE ?= 150
SEED ?= 0

mutants: $(SETUP) ## small faults in the deciding code: which ones no test notices (SAMPLE=150, 0 for all; SEED=0; GROUP=knee; MINUTES=10)
	$(UV) pip install --quiet --python $(BIN)/python --group mutants
	$(BIN)/python tools/mutants.py --sample $(SAMPLE) --seed $(SEED) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(GROUP),--group $(GROUP))

# Its own folder for what it compiles: in each copy of the checkout all would be compiled anew.
mutants-rust: ## the same in native code that decides (.cargo/mutants.toml): SAMPLE=150, SEED=0 (cargo install cargo-mutants --locked)
	@command -v cargo-mutants > /dev/null || { echo "first: cargo install cargo-mutants --locked"; exit 1; }
	@count=$$(cargo mutants --list 2> /dev/null | wc -l); size=$(SAMPLE); \
	shards=$$(( size > 0 ? (count + size - 1) / size : 1 )); \
	mkdir -p build && $(WITHOUT_LIBPYTHON) CARGO_TARGET_DIR=$(CURDIR)/build/mutants-rust cargo mutants --output build \
	  --jobs 1 --timeout 60 --shard $$(( $(SEED) % shards ))/$$shards --sharding round-robin

answers: $(SETUP) ## what planted recordings are answered, written anew (tests/fixtures/answers): read the difference
	-$(BIN)/pytest --quiet --inline-snapshot=fix,create tests/analyze -k "pieces_answers or slots_answers or answer and kept"

docs: $(SETUP) build/rooms ## the documentation as a site in build/site, reference drawn from the code
	$(BIN)/python tools/build_docs.py

man: $(SETUP) ## manual pages from the commands, in build/man
	$(BIN)/python tools/build_man.py

wheel: $(UV) ## a wheel for this machine and a source archive in dist/
	@$(PYTHON) tools/check_rust.py
	$(UV) build --out-dir dist

# Zig and what proves wheels, apart from .venv: only releases need them.
RELEASE_TOOLS := .tools/release/bin

.tools/release/.ready: pyproject.toml $(UV)
	@test -x $(RELEASE_TOOLS)/python || $(UV) venv --quiet --python $(PYTHON) .tools/release
	$(UV) pip install --quiet --python $(RELEASE_TOOLS)/python --group release
	@touch $@

TARGETS ?=

wheels: $(SETUP) .tools/release/.ready ## wheels for others in dist/: manylinux_2_28 and musllinux, x86-64 and ARM64 (TARGETS= for some)
	sh tools/wheels/build.sh $(BIN)/python $(CURDIR)/$(RELEASE_TOOLS) $(TARGETS)

windows: $(SETUP) ## build for Windows on Debian, run the native tests under Wine, and a Windows wheel in dist/
	sh tools/windows/build.sh $(BIN)/python

recorder: ## the Linux recorder as one static file in dist/, for hosts where nothing may be installed
	sh tools/standalone/build.sh

packages: recorder $(SETUP) .tools/release/.ready ## the recorder as a .deb and an .rpm in dist/, with its service
	sh tools/packages/build.sh $(BIN)/python $(CURDIR)/$(RELEASE_TOOLS)/nfpm

completions: $(SETUP) ## completion of commands and options for bash, zsh, fish and PowerShell, in build/completions
	$(BIN)/python tools/build_completions.py

release: wheels windows packages man completions ## all that is handed out, in dist/, with checksums, bill of materials, licence notices
	$(UV) build --sdist --out-dir dist
	tar --create --gzip --file dist/iotrace-man-pages.tar.gz --directory build/man --sort=name --owner=0 --group=0 man1
	tar --create --gzip --file dist/iotrace-completions.tar.gz --directory build/completions --sort=name --owner=0 --group=0 .
	$(BIN)/python tools/release.py

# A machine without a .NET SDK on PATH may have one unpacked beside the checkout.
DOTNET := capture/agent/with-dotnet.sh

agent: ## build the Windows agent: a portable build and one .exe, in build/agent (.NET 10 SDK)
	sh $(DOTNET) sh capture/agent/build.sh

agent-test: agent $(SETUP) ## the Windows agent's tests: its own, and the program under Wine
	sh $(DOTNET) sh capture/agent/test.sh
	$(BIN)/pytest tests/capture/agent

schemas: $(SETUP) ## write schemas/*.json from the Arrow schemas and the dataclasses
	$(BIN)/python -c "from iotrace.schemas.tables import language_neutral_text as t; print(end=t())" > schemas/recording.json
	$(BIN)/python -c "from iotrace.schemas.manifest import json_schema_text as t; print(end=t())" > schemas/manifest.schema.json
	$(BIN)/python -c "import iotrace.cli.main; from iotrace.analyze.present.program import json_schema_text as t; print(end=t())" > schemas/answers.schema.json

bundled: $(SETUP) ## record cli/bundled again: PostgreSQL under pgbench on loop devices (root, a few minutes)
	$(BIN)/python tools/record_bundled.py

pictures: $(SETUP) ## draw the README's pictures again (Chromium)
	$(BIN)/python tools/pictures.py

clean: ## remove everything that was built
	rm -rf .venv .tools build target dist *.egg-info analyze/*.so capture/*.so replay/*.so
