# Two commands for a fresh machine: `make demo` and `make test`. The rest drives the presets of CMakePresets.json.
PRESET ?= release
JOBS   ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
BUILD  := build/$(PRESET)
MODEL  := build/demo-model
BENCH  ?= forward -m $(MODEL)

.DEFAULT_GOAL := all
.PHONY: all deps configure build test check bench demo format help clean

all: build  ## build everything this machine can into build/release/bin

deps:  ## install what is missing, with the system's package manager
	@scripts/bootstrap

configure: deps
	@cmake --preset $(PRESET) >/dev/null

build: configure
	@cmake --build $(BUILD) --parallel $(JOBS)

test: build  ## build, then run every test that needs no GPU
	@ctest --preset $(PRESET) --parallel $(JOBS)

demo: configure  ## build the programs, answer examples/demo.jsonl with the demo model of models/
	@cmake --build $(BUILD) --parallel $(JOBS) --target clef clef-server
	@scripts/demo $(BUILD)/bin

$(MODEL): configure
	@cmake --build $(BUILD) --parallel $(JOBS) --target clef clef-tool
	@$(BUILD)/bin/clef-tool synth tests/golden/clef-tiny $(MODEL)

check:  ## format, tidy on changed files, include rules, tests under asan and ubsan
	@scripts/bootstrap --dev
	@scripts/check

format:  ## lay out every source as .clang-format asks (version 14)
	@git ls-files -z '*.h' '*.cpp' | xargs -0 clang-format -i

bench: $(MODEL)  ## time the tiny model; BENCH="linear" or BENCH="forward -m PATH --tokens N" times others
	@cmake --build $(BUILD) --parallel $(JOBS) --target clef-bench
	@$(BUILD)/bin/clef-bench $(BENCH)

clean:  ## remove build/
	@rm -rf build

help:  ## this list
	@awk -F ':.*  ## ' '/^[a-z]+:.*  ## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  PRESET=debug|asan|tsan picks another preset of CMakePresets.json; JOBS=N sets the parallel jobs"
