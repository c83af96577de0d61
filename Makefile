# Two commands for a fresh machine: `make demo` and `make test`. The rest drives the presets of CMakePresets.json.
PRESET ?= release
JOBS   ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
BUILD  := build/$(PRESET)
MODEL  := build/demo-model
BENCH  ?= forward -m $(MODEL)
PREFIX ?= /usr/local

.DEFAULT_GOAL := all
.PHONY: all deps configure build test check bench demo tool install uninstall package format help clean

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

tool: configure
	@cmake --build $(BUILD) --parallel $(JOBS) --target clef-tool

install:  ## put programs, man pages and completions below PREFIX=/usr/local; DESTDIR is honoured
	@test -x $(BUILD)/bin/clef || { echo "make install: run make first, as the user who builds" >&2; exit 1; }
	@cmake --preset $(PRESET) -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null
	@cmake --install $(BUILD)

uninstall:  ## remove what make install put there
	@test -f $(BUILD)/install_manifest.txt || { echo "make uninstall: nothing was installed from here" >&2; exit 1; }
	@sed "s|^|$(DESTDIR)|" $(BUILD)/install_manifest.txt | tr '\n' '\0' | xargs -0 rm -f
	@rm -f $(BUILD)/install_manifest.txt

package: configure  ## make a Debian package in build/release
	@cmake --preset $(PRESET) -DCMAKE_INSTALL_PREFIX=/usr >/dev/null
	@cmake --build $(BUILD) --parallel $(JOBS) --target clef clef-server clef-tool clef-bench clef_pages
	@cd $(BUILD) && cpack -G DEB

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
	@awk -F ':.*  ## ' '/^[a-z]+:.*  ## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  PRESET=debug|asan|tsan picks another preset of CMakePresets.json; JOBS=N sets the parallel jobs"
