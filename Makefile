# `make help` lists the targets. Needs Python 3.11 to 3.13, git and make; all else is installed into .venv.

# On a GPU machine `make .venv GPU=1` takes the lock that has torch for CUDA and vLLM.
GPU ?=
# A file of profiles/, whose sizes are put into params.yaml before `make reproduce` starts.
PROFILE ?=
# `make lock UPGRADE=1` moves every package to its newest version that fits; without it only what must change does.
UPGRADE ?=

CHECK_PYTHON := -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python $(CHECK_PYTHON) 2>/dev/null && echo $$python && break; done)

VENV := .venv
PIP_INSTALL := $(VENV)/bin/python -m pip --quiet --disable-pip-version-check install
INSTALLED := $(VENV)/.installed-$(if $(GPU),gpu,cpu)
SOURCES := $(wildcard dealwright stages flows benchmarks tests)

# DVC runs the stages with the first `python` on the path.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help .venv tools vllm test soak fuzz mutants lint bench reproduce pretrain flow ui serve lock clean

help:  ## list the targets
	@sed -n 's/^\([a-z.]*\):.*## /\1	/p' Makefile | expand -t 14

.venv: $(INSTALLED)  ## make the environment from the lock (GPU=1: with CUDA and vLLM)

ifdef GPU
LOCKS := requirements/gpu.txt
else
LOCKS := requirements/lock.txt requirements/torch.txt
endif

$(INSTALLED): pyproject.toml $(LOCKS)
	@test -n "$(PYTHON)" && $(PYTHON) $(CHECK_PYTHON) || { echo "Dealwright needs Python 3.11 to 3.13; name one with make PYTHON=..."; exit 1; }
	rm -f $(VENV)/.installed-*
	$(VENV)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing the packages of $(firstword $(LOCKS)); the first time this takes some minutes."
	$(PIP_INSTALL) --require-hashes --no-deps -r $(firstword $(LOCKS))
ifndef GPU
	$(PIP_INSTALL) -r requirements/torch.txt
endif
	$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	$(VENV)/bin/python -m pip check
	touch $@

# What campaigns need is no part of the lock.
TOOLS := $(CURDIR)/.venv-tools/bin
tools: .venv-tools/.installed  ## make .venv-tools: the fuzzer, the mutation tester, pip-audit

.venv-tools/.installed: requirements/tools.txt
	$(PYTHON) -m venv --clear .venv-tools
	$(TOOLS)/python -m pip --quiet --disable-pip-version-check install --retries 1 --timeout 15 -r requirements/tools.txt
	touch $@

# What comes with it for pictures and sound wants CUDA, and transformers fails where it finds them broken. The transformers
# that it comes with is too old for this project's engine; it runs with the lock's as well.
vllm: .venv-vllm/.installed  ## make .venv-vllm, vLLM for processors without a GPU, and run the tests marked vllm
	$(VENV)/bin/python -m pytest -m vllm tests/test_vllm_server.py

.venv-vllm/.installed: requirements/vllm.txt requirements/torch.txt $(INSTALLED)
	$(PYTHON) -m venv --clear .venv-vllm
	.venv-vllm/bin/python -m pip --quiet --disable-pip-version-check install -r requirements/torch.txt -r requirements/vllm.txt
	.venv-vllm/bin/python -m pip --quiet uninstall --yes torchvision torchaudio torchcodec
	.venv-vllm/bin/python -m pip --quiet --disable-pip-version-check install --no-deps \
		$$(sed -n 's/^\(transformers==[^ ]*\).*/\1/p' requirements/lock.txt)
	touch $@

test: $(INSTALLED)  ## run the tests, without those marked slow, vllm, browser or soak
	$(VENV)/bin/python -m pytest -m "not slow and not vllm and not browser and not soak"

# SOAK_KILLS=3 make soak: three kills a stage rather than twenty.
soak: $(INSTALLED)  ## kill every stage at random moments and run it again; rerun in other surroundings (hours)
	$(VENV)/bin/python -m pytest -m soak -s tests/test_soak.py

# RUNS=1000 make fuzz: so many inputs rather than a million.
fuzz: tools  ## make up texts and games that the parser and the regulator must stand (minutes)
	mkdir -p .hypothesis/fuzz && cd .hypothesis/fuzz && \
		PYTHONPATH=$(CURDIR) $(TOOLS)/python -m tests.fuzz -runs=$(or $(RUNS),1000000)

mutants: tools  ## break the rules of the game in hundreds of ways and count which the tests find (docs/testing.md)
	$(TOOLS)/mutmut run && $(TOOLS)/mutmut results

# What the network tells of the lock is told, and fails no line of ours.
lint: $(INSTALLED)  ## ruff, mypy, and known vulnerabilities of the lock where the network tells them
	$(VENV)/bin/ruff check $(SOURCES)
	$(VENV)/bin/ruff format --check $(SOURCES)
	$(VENV)/bin/mypy $(SOURCES)
	-@test -x $(TOOLS)/pip-audit || $(MAKE) --no-print-directory tools
	-@$(VENV)/bin/python -m tests.audit

bench: $(INSTALLED)  ## run the benchmarks and write reports/benchmarks.json (half an hour)
	$(VENV)/bin/python -m benchmarks

reproduce: $(INSTALLED)  ## run the pipeline, register the checkpoints, print the results (PROFILE=smoke: that profile)
	$(if $(PROFILE),$(VENV)/bin/dealwright profile $(PROFILE))
	$(VENV)/bin/dealwright check
	$(VENV)/bin/dvc repro
	$(VENV)/bin/dealwright register
	$(VENV)/bin/dealwright results

pretrain: $(INSTALLED)  ## make data/base/, the tiny base model, anew
	$(VENV)/bin/python -m dealwright.training.pretrain

flow: $(INSTALLED)  ## run the pipeline as a Prefect flow
	$(VENV)/bin/python -m flows.reproduce

ui: $(INSTALLED)  ## start the pages of Prefect, MLflow and the reports
	$(VENV)/bin/dealwright ui

serve: $(INSTALLED)  ## run what Prefect's pages and the schedule start; needs `make ui` in another terminal
	$(VENV)/bin/python -m flows.serve

# Needs the package index. uv only writes the locks; installing needs pip alone. The GPU lock ignores pyproject.toml's
# [tool.uv], which hides torch's CUDA libraries.
COMPILE = .venv-lock/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)
lock:  ## write the locks in requirements/ from pyproject.toml (UPGRADE=1: with the newest versions)
	test -x .venv-lock/bin/uv || { $(PYTHON) -m venv .venv-lock && .venv-lock/bin/python -m pip install uv; }
	$(COMPILE) --extra dev --no-emit-package torch --output-file requirements/lock.txt
	$(COMPILE) --extra dev --extra vllm --no-config --output-file requirements/gpu.txt

clean:  ## remove caches; the environment, data and results stay
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis mutants .venv-lock .venv-tools build dist
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
