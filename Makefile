# SPDX-License-Identifier: Apache-2.0
# Every target sets up .venv first (once; later it costs a fraction of a second). ARGS='…' is passed on.
# "##" behind a target is its line in `make help`, "##@" begins a heading there.
.DEFAULT_GOAL := help
CODE := src tests benchmarks examples
PYTHON := .venv/bin/python
# Tests of one module run in one process, a process for each core; ARGS='-n 0' runs all of them in this one, as --pdb needs.
PARALLEL := -n logical --maxprocesses 8
# Tests that fail run once more, alone, unless ARGS say which tests to run.
TESTS := $(if $(ARGS),env KILONOVA_ONCE=1) tools/in_memory.sh tools/run_tests.sh
# Programs that kill processes: their numeric libraries need no threads of their own.
CRASH := PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 exec $(PYTHON) -m
# What a host of real guests needs is installed when one is asked for.
HYPERVISOR = $(if $(findstring --hypervisor libvirt,$(subst =, ,$(strip $(ARGS)))),tools/hypervisor.sh &&)
# Tests start some hundred processes, which would compile the same modules each time.
unexport PYTHONDONTWRITEBYTECODE

##@ Run Kilonova
.PHONY: help setup run clean
help: ## say what there is
	@awk -F ':[^#]*## ' '/^##@/ { print "\n" substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' Makefile
setup: ## make .venv from requirements.lock
	@tools/setup.sh
run: setup ## start a cloud, for instance ARGS='--hosts 5 --data DIR', or with real guests ARGS='--hypervisor libvirt'
	@$(HYPERVISOR) exec .venv/bin/kilonova up $(ARGS)
clean: ## remove what make made
	@rm -rf .venv .venv-* .novnc build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	@find . -name __pycache__ -prune -exec rm -rf {} +

##@ Every day
.PHONY: lint types test e2e guests docs changelog bench lock
lint: setup ## check style and format
	@.venv/bin/ruff check $(CODE)
	@exec .venv/bin/ruff format --check $(CODE)
types: setup ## check types, strictly
	@exec .venv/bin/mypy $(ARGS)
test: setup ## run the tests, on SQLite, PostgreSQL and MariaDB
	@tools/test_servers.sh
	@exec $(TESTS) --ignore=tests/e2e --ignore=tests/guests $(ARGS)
e2e: setup ## start whole clouds and use them with the stock client
	@exec $(TESTS) tests/e2e $(ARGS)
guests: setup ## run real guests by libvirt and QEMU
	@tools/hypervisor.sh
	@tools/test_servers.sh
	@exec $(TESTS) tests/guests $(ARGS)
docs: setup ## write the pages of docs/ that are made from the code
	@exec tools/write_docs.sh
changelog: setup ## print the next release's changelog; ARGS=--keep writes it into CHANGELOG.md
	@exec $(PYTHON) -m towncrier build --date unreleased $(or $(ARGS),--draft)
bench: setup ## measure speed
	@exec $(PYTHON) -m benchmarks $(ARGS)
lock: setup ## take the hashes of what requirements.lock and requirements-libvirt.lock name
	@tools/hypervisor.sh
	@exec $(PYTHON) tools/lock_hashes.py

##@ Before a release
.PHONY: fuzz properties races soak attack crash-matrix crash-kills crash-sample guest-crashes faults fault-sample broker-faults restored
fuzz: setup ## send 10,000 requests to every route, most of them odd
	@KILONOVA_WHOLE=1 KILONOVA_FUZZ_REQUESTS=10000 \
		exec $(PYTHON) -m pytest $(PARALLEL) tests/fuzz tests/api/placement/test_family_fuzz.py $(ARGS)
properties: setup ## try many new examples of every property, others each time
	@KILONOVA_WHOLE=1 HYPOTHESIS_PROFILE=new exec $(PYTHON) -m pytest $(PARALLEL) tests/properties $(ARGS)
races: setup ## let processes race for the same hosts for longer than in the tests
	@tools/test_servers.sh
	@KILONOVA_WHOLE=1 exec $(PYTHON) -m pytest tests/concurrency $(ARGS)
soak: setup ## 200,000 operations of 64 clients on PostgreSQL and on MariaDB, then check every sum
	@tools/test_servers.sh
	@PYTHONPATH=tests exec $(PYTHON) -m concurrency.soak $(ARGS)
attack: setup ## attack a cloud of its own on SQLite and on PostgreSQL while another user works, ARGS='slow' only some
	@tools/test_servers.sh
	@PYTHONPATH=tests exec $(PYTHON) -m attack $(ARGS)
crash-matrix: setup ## kill every workflow at every point of every step, then check the world, ARGS='--only resize' one of them
	@$(CRASH) crash.matrix $(ARGS)
crash-kills: setup ## kill a working cloud 1,000 times at random, ARGS='--seed 7' as that time
	@$(CRASH) crash.kills $(ARGS)
crash-sample: setup ## a part of both, the same every time
	@$(MAKE) -s crash-matrix ARGS='--sample 150 --seed 5'
	@exec $(MAKE) -s crash-kills ARGS='--kills 40 --commands 5 --seed 5'
guest-crashes: setup ## kill a host of real guests before everything that it does, ARGS='--only rebuild' in one workflow
	@tools/hypervisor.sh
	@$(CRASH) crash.guest_matrix $(ARGS)
faults: setup ## kill, stop and cut off processes, broker and database of a working cloud, ARGS='--faults 300 --agents 20 --hosts 50'
	@tools/test_servers.sh
	@$(CRASH) crash.faults $(ARGS)
fault-sample: setup ## a part of that, the same every time
	@exec $(MAKE) -s faults ARGS='--faults 16 --look-every 8 --agents 4 --hosts 10 --seed 5'
broker-faults: setup ## kill, freeze and cut off the broker under traffic, each for longer than make test does
	@tools/test_servers.sh
	@KILONOVA_WHOLE=1 exec $(PYTHON) -m pytest tests/messaging $(ARGS)
restored: setup ## restore a database of before half of 2,000 guests were made, on SQLite and PostgreSQL
	@tools/test_servers.sh
	@KILONOVA_WHOLE=1 exec $(PYTHON) -m pytest tests/databases/test_guests_after_a_restore.py $(ARGS)

##@ Compare with peers
.PHONY: conformance conformance-nova conformance-scheduler conformance-policy conformance-schemas tempest tempest-sample horizon
conformance: setup ## run the tests that openstack-placement ships, ARGS='traits.yaml' only some
	@tools/peer.sh conformance
	@PYTHONPATH=tests exec tools/in_memory.sh $(PYTHON) -m conformance $(ARGS)
conformance-nova: setup ## run Nova's own Placement client against Kilonova's Placement
	@exec tools/nova_client.sh $(ARGS)
conformance-scheduler: setup ## ask Nova's own filters and weighers the same as ours, ARGS='JsonFilter' only some
	@tools/peer.sh nova
	@PYTHONPATH=src:tests exec .venv-nova/bin/python -m scheduler_peer $(ARGS)
conformance-policy: setup ## compare the rules of policy with Nova's own
	@exec tools/compare_policy.sh
conformance-schemas: setup ## compare what is taken and answered with the schemas of Nova's own API, some minutes
	@exec tools/compare_schemas.sh
tempest: setup ## run Tempest, the public suite, against a cloud of its own, ARGS=--sample some of it, ARGS='test_keypairs' those that match
	@tools/peer.sh tempest
	@PYTHONPATH=tests exec tools/in_memory.sh $(PYTHON) -m tempest $(ARGS)
tempest-sample: ## a part of that
	@exec $(MAKE) -s tempest ARGS=--sample
horizon: setup ## use Horizon's compute panels with a browser, against a whole cloud
	@exec tools/horizon.sh $(ARGS)
