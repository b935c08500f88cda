# SPDX-License-Identifier: Apache-2.0
#
# A thin front for CMake and scripts/: everything lands in build/.

BUILD      ?= build
BUILD_TYPE ?= Release
PREFIX     ?= /usr/local
JOBS       ?= $(shell nproc 2>/dev/null || echo 2)
# More arguments for CMake, such as CMAKE_ARGS="-DUPCONV_WERROR=ON".
CMAKE_ARGS ?=
# A Python that has requirements-test.txt; if none is named, scripts/venv makes one in build/venv.
PYTHON     ?=
# What `make demo` runs once the program is built.
DEMO       ?= $(BUILD)/bin/upconv demo models/*.onnx
# Options of bench/bench_cpu.py for `make bench`, such as BENCH='--only "[ABC] *"'.
BENCH      ?=

CONFIGURE = cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=$(BUILD_TYPE) $(CMAKE_ARGS)
COMPILE   = cmake --build $(BUILD) -j $(JOBS)
# Only what went wrong is worth reading.
QUIET     = >$(BUILD)/make.log 2>&1 || { cat $(BUILD)/make.log; exit 1; }

MAKEFLAGS += --no-print-directory

.PHONY: all help build setup demo check check-cuda check-gpu check-gpu-torch bench bench-gpu format lint install clean
.DEFAULT_GOAL := all

all: build                ## the same as build

help:                     ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

build:                    ## library, program, tests, benchmarks, in build/
	@mkdir -p $(BUILD)
	@$(CONFIGURE) $(QUIET)
	@$(COMPILE)

setup:                    ## installs the tools and libraries that are missing
	@scripts/setup

demo: setup               ## builds, then runs the models of models/ with both sides timed
	@mkdir -p $(BUILD)
	@{ $(CONFIGURE) && $(COMPILE); } $(QUIET)
	@$(DEMO)

check: setup              ## builds with ONNX and runs every test that needs no GPU, but check-cuda's
	@mkdir -p $(BUILD)
	@python='$(PYTHON)'; [ -n "$$python" ] || python=$$(scripts/venv) || exit 1; \
	  { $(CONFIGURE) -DUPCONV_ONNX=ON -DUPCONV_PYTEST=ON -DUPCONV_PYTHON="$$python" && $(COMPILE); } $(QUIET)
	@scripts/test $(BUILD) -LE compile

check-cuda: build         ## compiles generated kernels for every GPU architecture; needs NVRTC, no GPU, minutes
	@scripts/test $(BUILD) -L compile

check-gpu:                ## builds in build-gpu/, then runs the tests that need an NVIDIA GPU
	@scripts/check-gpu

check-gpu-torch:          ## the same for the PyTorch operator; needs a Python with PyTorch, NumPy and pytest
	@scripts/check-gpu-torch

bench-gpu:                ## founding models and the users' suite on an NVIDIA GPU beside PyTorch; results in docs/bench
	@scripts/bench-gpu

bench: setup              ## measures the CPU against ONNX Runtime, writes docs/bench; never a test
	@mkdir -p $(BUILD)
	@python='$(PYTHON)'; [ -n "$$python" ] || python=$$(scripts/venv bench) || exit 1; \
	  { $(CONFIGURE) -DUPCONV_ONNX=ON && $(COMPILE) --target upconv_program; } $(QUIET); \
	  "$$python" bench/bench_cpu.py --program $(BUILD)/bin/upconv $(BENCH)

format:                   ## formats C and Python in place
	@scripts/format

lint:                     ## clang-tidy and ruff
	@scripts/lint

install: build            ## installs to PREFIX (/usr/local); DESTDIR is honoured
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:                    ## removes build/
	@cmake -E rm -rf $(BUILD)
