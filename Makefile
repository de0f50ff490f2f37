# `make demo` and `make test` are all you need; each sets up what it lacks. NEO4J=5.26 chooses the other server line.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
INSTALL := $(PYTHON) pipelines/install.py $(VENV)
# Keep bytecode, so that later processes need not compile it again.
export PYTHONDONTWRITEBYTECODE :=
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
ifdef NEO4J
export ADK_GRAPH_MEMORY_NEO4J := $(NEO4J)
endif

.PHONY: setup demo test test-rest test-all lint types docs bench quality compare lock neo4j-lock clean

setup: $(VENV)/.ready

# What the demo needs is part of what all else needs.
$(VENV)/.demo: pyproject.toml requirements/demo.txt
	$(INSTALL) requirements/demo.txt
	touch $@

$(VENV)/.ready: pyproject.toml requirements/all.txt
	$(INSTALL) requirements/all.txt
	touch $(VENV)/.demo $@

demo: $(VENV)/.demo
ifdef DATA
	$(BIN)/python -m benchmarks.quality.locomo '$(DATA)' > $(VENV)/conversation.json
	$(BIN)/adk-graph-memory demo --data $(VENV)/conversation.json --questions $(or $(QUESTIONS),10)
else
	$(BIN)/adk-graph-memory demo $(if $(QUESTIONS),--questions $(QUESTIONS))
endif

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup

# The part that is quick enough to wait for: one case of each kind, in minutes. `make test-rest` runs what it leaves out,
# `make test-all` every case.
# ARGS chooses tests itself, slow ones too.
test: setup lint
	$(PYTEST) $(or $(ARGS),-m 'not slow and not full')

test-rest: setup types
	$(PYTEST) -m 'slow and not full'

test-all: setup lint types $(VENV)/agent-framework-oldest
	$(PYTEST)
	ADK_GRAPH_MEMORY_NEO4J=5.26 $(PYTEST) -m 'not full' tests/migrations tests/contract
	PYTHONPATH=$(VENV)/agent-framework-oldest $(PYTEST) tests/unit/test_message_ids.py tests/integration/test_agent_framework.py tests/integration/test_agent_framework_history.py tests/integration/test_index_service.py

# The oldest release of Agent Framework that the package takes, before the one in $(VENV).
$(VENV)/agent-framework-oldest: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --no-deps --target $@ agent-framework-core==1.0.0

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

# The site, into site/, from docs/ and from what the code says of itself.
docs: setup
	$(BIN)/python pipelines/reference_pages.py
	$(BIN)/zensical build --clean --strict

bench: setup
	$(BIN)/python -m benchmarks.latency

# What memory is worth: life histories with scripted replies, recorded replies against gold facts and with something
# wrong in them, who is who, who sees whose words, who can poison it, what a search finds.
# DATA=path/to/locomo.json and XQUAD=folder ask those too.
quality: setup
	$(BIN)/python -m benchmarks.quality.truth
	$(BIN)/python -m benchmarks.quality.replies
	$(BIN)/python -m benchmarks.quality.recorded
	$(BIN)/python -m benchmarks.quality.perturbed
	$(BIN)/python -m benchmarks.quality.aliases
	$(BIN)/python -m benchmarks.quality.tenants
	$(BIN)/python -m benchmarks.quality.poisoning
	$(BIN)/python -m benchmarks.quality.poisoned_agent
	$(BIN)/python -m benchmarks.quality.sizes $(if $(DATA),--locomo '$(DATA)')
	$(BIN)/python -m benchmarks.quality $(if $(DATA),--locomo '$(DATA)' --ablate) $(if $(XQUAD),--xquad '$(XQUAD)')

# Beside what else one would use. FIRST=n users are told; DATA=path/to/locomo.json instead of the project's chats.
# The model has one thread, so that it does not take the servers' cores.
compare: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.compare --json .cache/compare.json --markdown .cache/compare.md $(if $(FIRST),--first $(FIRST)) $(if $(DATA),--locomo '$(DATA)')

# Pins what pyproject.toml asks for; UPGRADE=1 takes the newest versions.
lock: setup
	$(BIN)/python pipelines/lock.py $(if $(UPGRADE),--upgrade)

# Needs Maven; the result is src/adk_graph_memory/graph/local_neo4j/locks/neo4j-$(VERSION).lock.json
neo4j-lock: setup
	$(BIN)/python -m adk_graph_memory.graph.local_neo4j.jar_lock $(VERSION)

clean:
	rm -rf $(VENV) $(VENV)-compare dist build site .cache .pytest_cache .mypy_cache .ruff_cache
