# Everything here does its own set-up: a Rust toolchain and Python 3.11 are all that must be there, root is not needed.
# rust-toolchain.toml names the compiler; rustup fetches it on first use.

PYTHON ?= python3
CARGO ?= cargo

.DEFAULT_GOAL := help

.PHONY: help
help: ## Say what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

.PHONY: demo
demo: ## Eight ranks, three switches and a manager exchange real frames, every result checked
	$(CARGO) run --release -p quincunx-cli -- demo

.PHONY: demo-docs
demo-docs: ## What the demo prints, into docs/demo.md and the README
	$(CARGO) build --release -p quincunx-cli
	$(PYTHON) tools/demo.py "$${CARGO_TARGET_DIR:-target}/release/quincunx"

.PHONY: test
test: ## Every check and every test; what needs root is skipped with a line that says so
	@$(PYTHON) tools/run_tests.py

.PHONY: test-rtl
test-rtl: ## Benches, lint and proofs of the hardware (two to four minutes; with CI=true installs their tools)
	@if [ "$$CI" = true ]; then $(PYTHON) tools/packages.py hardware || true; fi
	@$(PYTHON) tools/python_environment.py rtl/requirements.txt rtl/bench/run_tests.py

.PHONY: test-torch
test-torch: ## The backend of torch.distributed, in an environment with torch (downloads 3 GB at first)
	$(PYTHON) tools/python_environment.py python/quincunx/tests/with_torch/requirements.txt -m unittest discover -v -s python/quincunx/tests -p 'test_torch.py'

.PHONY: test-slurm
test-slurm: ## One program under quincunx run, torchrun, mpirun, srun and sbatch (root; apt-get install slurm-wlm munge; two minutes)
	$(PYTHON) tools/python_environment.py python/quincunx/tests/with_torch/requirements.txt -m unittest -v python/quincunx/tests/starters/test_starters.py

.PHONY: openmpi
openmpi: ## The component of Open MPI 4.1 by which MPI programs use switches: target/release/openmpi (apt-get install libopenmpi-dev)
	$(CARGO) build --release -p quincunx-capi
	$(PYTHON) openmpi/build.py "$${CARGO_TARGET_DIR:-target}/release"

.PHONY: nccl
nccl: ## NCCL's plugin, by which CollNet runs in switches: target/release/nccl
	$(CARGO) build --release -p quincunx-capi
	$(PYTHON) nccl/build.py "$${CARGO_TARGET_DIR:-target}/release"

.PHONY: test-openmpi
test-openmpi: ## mpi4py's tests and hpcc, unchanged, through a switch (apt-get install openmpi-bin libopenmpi-dev python3-mpi4py hpcc; ten minutes)
	$(PYTHON) tools/python_environment.py python/quincunx/tests/requirements.txt openmpi/tests/suites.py -v

.PHONY: test-walk
test-walk: ## Two machines of four ranks and a box as their switch, over mTLS: drained, refused, killed, revoked (root; a minute)
	$(PYTHON) tools/python_environment.py python/quincunx/tests/with_torch/requirements.txt -m unittest -v python/quincunx/tests/starters/test_walk.py

.PHONY: test-pages
test-pages: ## The pages' commands by an optimised program, the tables that take long among them (root; a release build, then a minute)
	$(CARGO) build --release -p quincunx-cli
	QUINCUNX_COMMAND="$${CARGO_TARGET_DIR:-target}/release/quincunx" $(PYTHON) examples/tests/test_pages.py

.PHONY: test-wheel
test-wheel: ## The wheels of the Python package and of the command in an empty environment, and how large they are (a release build)
	$(PYTHON) tools/wheel.py

.PHONY: release
release: ## What is handed out, for x86-64 and aarch64: target/release-VERSION (Debian, rustup; an hour)
	$(PYTHON) tools/python_environment.py tools/release/requirements.txt tools/release

.PHONY: release-twice
release-twice: ## The same in two folders, compared to the bit (twice as long; a tree without changes)
	$(PYTHON) tools/python_environment.py tools/release/requirements.txt tools/release twice

.PHONY: test-release
test-release: ## The Debian package in a bare Debian: installed, an AllReduce through its units, purged (root; apt-get install mmdebstrap iproute2 systemd)
	$(PYTHON) tools/release/installed.py -v

.PHONY: synth-rtl
synth-rtl: ## Resources of the hardware by number of ports, through Yosys (about sixteen minutes of one core)
	$(PYTHON) rtl/bench/synthesise.py

.PHONY: timing-rtl
timing-rtl: ## Levels of logic of the hardware, and how fast small ones run on an ECP5, through Yosys and nextpnr (about forty minutes of one core)
	$(PYTHON) tools/python_environment.py rtl/bench/timing-requirements.txt rtl/bench/timing.py

.PHONY: draw-rtl
draw-rtl: ## Draw them beside the published ones: rtl/allreduce_switch/resources.svg
	$(PYTHON) tools/python_environment.py rtl/bench/requirements.txt rtl/bench/draw_resources.py

.PHONY: bench
bench: ## Measure reduction, invariant CRC, queue pair and sockets (about ten minutes)
	$(CARGO) bench --workspace

.PHONY: bench-growth
bench-growth: ## How simulations' cost grows with size, ranks and loss: packets a second and memory (about ten minutes)
	$(CARGO) build --release -p quincunx-cli
	$(PYTHON) benches/growth.py "$${CARGO_TARGET_DIR:-target}/release/quincunx"

.PHONY: bench-check
bench-check: ## States a second of our checker and of TLC on the same cases (about ten minutes; needs Java)
	$(CARGO) build --release -p quincunx-cli
	$(PYTHON) spec/compare.py "$${CARGO_TARGET_DIR:-target}/release/quincunx"

.PHONY: experiment-scin-table1
experiment-scin-table1: ## SCIN's table 1 on a small language model: perplexity under quantised AllReduce (about ten minutes)
	$(PYTHON) tools/python_environment.py python/experiments/requirements.txt python/experiments/scin_table1.py

.PHONY: docs
docs: ## Documentation of every room, in target/doc
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

.PHONY: book
book: ## The project's pages as an offline book, in target/book/html (builds mdBook at first)
	$(PYTHON) tools/book.py

.PHONY: fmt
fmt: ## Format all sources
	$(CARGO) fmt --all

.PHONY: lint
lint: ## Layers, circles, ways to skip, format and lints, without tests
	$(PYTHON) tools/layering.py
	$(PYTHON) tools/circles.py
	$(PYTHON) tools/skips.py
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null; then cargo deny check; else echo "skipped: cargo deny check, expected cargo-deny on PATH; cargo install cargo-deny"; fi
