# Two commands for a fresh machine: `make demo` and `make test`. The rest drives the presets of CMakePresets.json.
PRESET ?= release
JOBS   ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
BUILD  := build/$(PRESET)
MODEL  := build/demo-model

.DEFAULT_GOAL := all
.PHONY: all deps build test check bench demo format help clean

all: build  ## build everything this machine can into build/release/bin

deps:  ## install what is missing, with the system's package manager
	@scripts/bootstrap

build: deps
	@cmake --preset $(PRESET) --log-level=WARNING
	@cmake --build $(BUILD) --parallel $(JOBS)

test: build  ## build, then run every test that needs no GPU
	@ctest --preset $(PRESET) --parallel $(JOBS)

demo: build $(MODEL)  ## build, make a tiny model by formula, and answer examples/requests.jsonl with it
	@scripts/demo $(BUILD)/bin/clef $(MODEL)

$(MODEL): | build
	@$(BUILD)/bin/clef-tool synth tests/golden/clef-tiny $(MODEL)

check:  ## format, tidy on changed files, include rules, tests under asan and ubsan
	@scripts/bootstrap --dev
	@scripts/check

format:  ## lay out every source as .clang-format asks (version 14)
	@git ls-files -z '*.h' '*.cpp' | xargs -0 clang-format -i

bench: build  ## time the matrix product; BENCH_ARGS="forward -m PATH --tokens 1024" times a model
	@$(BUILD)/bin/clef-bench $(or $(BENCH_ARGS),linear)

clean:  ## remove build/
	@rm -rf build

help:  ## this list
	@awk -F ':.*  ## ' '/^[a-z]+:.*  ## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  PRESET=debug|asan|tsan picks another preset of CMakePresets.json; JOBS=N sets the parallel jobs"
