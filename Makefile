# Every command does its own set-up: a virtual environment here, jars and Java in the cache (HEADWATER_CACHE).
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
STAMP   = $(VENV)/.installed
NATIVE  = $(VENV)/.native
SHARE  ?= 0.05
ONE_IN ?= 1
KUBE_NODE ?=
RECORDS ?= 10000000

.DEFAULT_GOAL := help
.PHONY: help run kube caches native test test-all test-fast check e2e-cluster bench bench-kube bench-spark soak fmt crds clean

help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Headwater needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@echo "Installing Headwater and its tools into $(VENV), once: one to three minutes, most of it the network's ..."
	@$(PYTHON) -m venv $(VENV) || { echo "cannot make a virtual environment: install your system's python3-venv package"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

run: $(STAMP) ## Word count on a private Kafka: two workers, a kill -9, counts compared
	@$(BIN)/python -m examples.word_count.demo

kube: $(STAMP) ## Build the Kubernetes programs of the tests into the cache (once, 15 minutes)
	@$(BIN)/python -m tests.kube.build

native: $(NATIVE) ## Build and install the path of records in C, with the machine's compiler or ziglang's

$(NATIVE): native/pyproject.toml native/setup.py $(wildcard native/src/*.[ch] native/src/headwater_native/*.py) | $(STAMP)
	@command -v cc >/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check 'ziglang==0.17.0'
	@if ! command -v cc >/dev/null; then export CC="$(abspath $(BIN))/python -m ziglang cc"; fi; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps ./native
	@$(BIN)/python native/tests/try_it.py
	@touch $(NATIVE)

caches: $(NATIVE) ## Fetch and build all that tests read from the cache (once); the only step that fetches
	@$(BIN)/python -m tests.caches --all --kube-node="$(KUBE_NODE)"

test: $(NATIVE) ## The tests that need Python and Java: pure ones, real Kafka, Java oracle, a run on Spark
	@$(BIN)/python -m tests.caches
	+@$(BIN)/python -m tests.parts --share $(SHARE)

test-all: caches ## These, then Kubernetes, all of Spark, kills; with KUBE_NODE=FOLDER a real node
	+@$(BIN)/python -m tests.parts --all --kube-node="$(KUBE_NODE)" --share $(SHARE) --one-in $(ONE_IN)

test-fast: $(NATIVE) ## The tests that need no Kafka, Kubernetes or Java
	@$(BIN)/python -m pytest -q --share $(SHARE) -n logical --maxprocesses 8 --dist worksteal -m "not kafka and not kube and not java and not slow and not soak"

e2e-cluster: $(STAMP) ## The user's journey on a cluster: KUBECONFIG=, WORKER_IMAGE=, OPERATOR_IMAGE=, BOOTSTRAP=
	@$(BIN)/python -m pytest tests/e2e -v -s -x --kubeconfig="$$KUBECONFIG" --bootstrap="$$BOOTSTRAP" \
		--worker-image="$$WORKER_IMAGE" --operator-image="$$OPERATOR_IMAGE" \
		--next-worker-image="$$NEXT_WORKER_IMAGE" --example-image="$$EXAMPLE_IMAGE" \
		--backfill-image="$$BACKFILL_IMAGE" --spark-image="$$SPARK_IMAGE" \
		--state-access-mode="$$STATE_ACCESS_MODE" \
		--stop-kubelet="$$STOP_KUBELET" --start-kubelet="$$START_KUBELET"

soak: $(NATIVE) ## All seeds and kills; writes benchmarks/SOAK.md
	@$(BIN)/python -m tests.soak

check: $(STAMP) ## Format, lint, types, import contracts
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

crds: $(STAMP) ## Write crds/, docs/reference/ and the chart's part of them from the code
	@$(BIN)/python -m tests.golden.crds

bench: $(NATIVE) ## Side by side with Java Kafka Streams, quixstreams and a bare loop; writes benchmarks/RESULTS.md
	@$(BIN)/python -m benchmarks.run
	@$(BIN)/python -m benchmarks.keys
	@$(BIN)/python -m benchmarks.takeover
	@$(BIN)/python -m benchmarks.crash
	@$(BIN)/python -m benchmarks.standby
	@$(BIN)/python -m benchmarks.calls
	@$(BIN)/python -m benchmarks.global_store
	@$(BIN)/python -m benchmarks.slow_task
	@$(BIN)/python -m benchmarks.partitions
	@$(BIN)/python -m benchmarks.native_path --page
	@$(BIN)/python -m benchmarks.peers
	@$(BIN)/python -m benchmarks.metrics
	@$(BIN)/python -m benchmarks.queries

bench-kube: $(STAMP) ## The operator of 50, 200, 500 StreamApps, the assignor, the live page, autoscaling; writes benchmarks/FLEET.md and others
	@$(BIN)/python -m tests.caches --all --kube-node="$(KUBE_NODE)"
	@$(BIN)/python -m benchmarks.assignor
	@$(BIN)/python -m benchmarks.web
	@$(BIN)/python -m benchmarks.autoscaling
	@$(BIN)/python -m benchmarks.fleet

bench-spark: $(STAMP) ## Spark against native replay and Spark's own ways (10,000,000 records; RECORDS=1000000 for a quick look); writes benchmarks/SPARK.md
	@$(BIN)/python -m benchmarks.spark_backfill --records $(RECORDS)

fmt: $(STAMP) ## Format and fix what can be fixed
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean: ## Remove what the commands made here (not the cache)
	@rm -rf $(VENV) .headwater .test-run .pytest_cache .mypy_cache .ruff_cache .hypothesis
