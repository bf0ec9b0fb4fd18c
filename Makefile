# SPDX-License-Identifier: Apache-2.0
# Every target first sets up .venv (a fraction of a second if it is up to date). ARGS='…' passes options to its command.
# "##" after a target is its line in `make help`, "##@" starts a heading there.
.DEFAULT_GOAL := help
CODE := src tests benchmarks examples
PYTHON := .venv/bin/python
# One test process per core, and all tests of a module in the same one; ARGS='-n 0' runs all in one, which --pdb needs.
PARALLEL := -n logical --maxprocesses 8
# Failed tests are retried one by one, unless ARGS is given.
TESTS := $(if $(ARGS),env KILONOVA_ONCE=1) tools/in_memory.sh tools/run_tests.sh
# Programs that fork and kill processes; numeric libraries must not start threads in them.
CRASH := PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 exec $(PYTHON) -m
IN_MEMORY := $(subst exec,exec tools/in_memory.sh,$(CRASH))
# Installs the requirements of a libvirt host if ARGS selects that hypervisor.
HYPERVISOR = $(if $(findstring --hypervisor libvirt,$(subst =, ,$(strip $(ARGS)))),tools/hypervisor.sh &&)
# Installs Neutron if ARGS asks for networks; for networks of real guests also Open vSwitch and OVN, and builds their image.
NETWORKS = $(if $(filter --networks,$(ARGS)),tools/networks.sh && $(if $(HYPERVISOR),tools/ovn.sh && tools/network_guest.sh &&))
# Tests start hundreds of processes, which would otherwise compile the same modules each time.
unexport PYTHONDONTWRITEBYTECODE

##@ Run Kilonova
.PHONY: help setup run clean
help: ## list the targets
	@awk -F ':[^#]*## ' '/^##@/ { print "\n" substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' Makefile
setup: ## create .venv from requirements.lock
	@tools/setup.sh
run: setup ## start a cloud; ARGS='--hosts 5 --data DIR': its size and folder; ARGS='--hypervisor libvirt': with real guests
	@$(HYPERVISOR) $(NETWORKS) exec .venv/bin/kilonova up $(ARGS)
clean: ## remove virtual environments, caches and build files
	@rm -rf .venv .venv-* .novnc build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	@find . -name __pycache__ -prune -exec rm -rf {} +

##@ Every day
.PHONY: lint types collect test e2e guests docs changelog bench lock
lint: setup ## check style and format
	@.venv/bin/ruff check $(CODE)
	@exec .venv/bin/ruff format --check $(CODE)
types: setup ## check types with mypy, strictly
	@exec .venv/bin/mypy $(ARGS)
collect: setup ## import all tests, without running them
	@exec tools/collect_tests.sh
test: setup ## run the tests, on SQLite, PostgreSQL and MariaDB
	@tools/test_servers.sh
	@tools/networks.sh
	@exec $(TESTS) --ignore=tests/e2e --ignore=tests/guests $(ARGS)
e2e: setup ## run end-to-end tests: whole clouds, used with the stock clients
	@tools/networks.sh
	@exec $(TESTS) tests/e2e $(ARGS)
guests: setup ## run the tests with real guests on libvirt and QEMU
	@tools/hypervisor.sh
	@tools/ovn.sh
	@tools/networks.sh
	@tools/network_guest.sh
	@tools/test_servers.sh
	@exec $(TESTS) tests/guests $(ARGS)
docs: setup ## write the generated pages of docs/
	@exec tools/write_docs.sh
changelog: setup ## print the next release's changelog; ARGS=--keep writes it into CHANGELOG.md
	@exec $(PYTHON) -m towncrier build --date unreleased $(or $(ARGS),--draft)
bench: setup ## run the benchmarks
	@exec $(PYTHON) -m benchmarks $(ARGS)
lock: setup ## write the hashes of the packages in the lock files of .venv and .venv-networks
	@tools/hypervisor.sh
	@exec $(PYTHON) tools/lock_hashes.py

##@ Before a release
.PHONY: fuzz properties plans races soak attack guests-whole
.PHONY: crash-matrix away-matrix away-sample crash-kills crash-sample guest-crashes faults fault-sample broker-faults restored
fuzz: setup ## send 10,000 random requests to the routes, most of them invalid
	@KILONOVA_WHOLE=1 KILONOVA_FUZZ_REQUESTS=10000 \
		exec $(PYTHON) -m pytest $(PARALLEL) tests/fuzz tests/api/placement/test_family_fuzz.py $(ARGS)
properties: setup ## test every property with many new random examples
	@KILONOVA_WHOLE=1 HYPOTHESIS_PROFILE=new exec $(PYTHON) -m pytest $(PARALLEL) tests/properties $(ARGS)
plans: setup ## plan capacity, drains and rebalancing of hundreds of random clouds, and carry the plans out
	@KILONOVA_WHOLE=1 exec $(PYTHON) -m pytest $(PARALLEL) tests/properties/test_planning_*.py tests/properties/test_capacity.py \
		tests/api/operator/test_capacity_of_random_clouds.py tests/api/operator/test_drain_of_random_clouds.py \
		tests/unit/conductor/plans tests/api/operator/test_plans_killed.py $(ARGS)
races: setup ## run the concurrency tests with more rounds than in `make test`
	@tools/test_servers.sh
	@KILONOVA_WHOLE=1 exec $(PYTHON) -m pytest tests/concurrency $(ARGS)
soak: setup ## run 200,000 operations of 64 clients on PostgreSQL and on MariaDB, then check all allocations
	@tools/test_servers.sh
	@PYTHONPATH=tests exec $(PYTHON) -m concurrency.soak $(ARGS)
attack: setup ## attack a private cloud on SQLite and PostgreSQL and measure another user's latency; ARGS='slow': some attacks
	@tools/test_servers.sh
	@PYTHONPATH=tests exec $(PYTHON) -m attack $(ARGS)
guests-whole: ## run the tests with real guests, also those that `make guests` leaves out
	@KILONOVA_WHOLE=1 exec $(MAKE) -s guests
crash-matrix: setup ## kill every workflow at every point of every step and check its recovery; ARGS='--only resize': one workflow
	@$(IN_MEMORY) crash.matrix $(ARGS)
away-matrix: setup ## lose the host of every step of every workflow, and check the state when it is back; ARGS='--only shelve'
	@$(IN_MEMORY) crash.away $(ARGS)
away-sample: setup ## run a fixed sample of away-matrix
	@exec $(MAKE) -s away-matrix ARGS='--sample 60 --seed 5'
crash-kills: setup ## kill a cloud under load 1,000 times at random; ARGS='--seed 7': with this seed
	@$(CRASH) crash.kills $(ARGS)
crash-sample: setup ## run a fixed sample of crash-matrix and crash-kills
	@$(MAKE) -s crash-matrix ARGS='--sample 150 --seed 5'
	@exec $(PYTHON) -m pytest -q tests/unit/conductor/plans/test_plan_runner_killed.py
	@exec $(MAKE) -s crash-kills ARGS='--kills 40 --commands 5 --seed 5'
guest-crashes: setup ## kill a host of real guests before each of its effects; ARGS='--only rebuild': one workflow
	@tools/hypervisor.sh
	@$(CRASH) crash.guest_matrix $(ARGS)
faults: setup ## kill, freeze and cut off processes, broker and database under load; ARGS='--faults 300 --agents 20 --hosts 50'
	@tools/test_servers.sh
	@$(CRASH) crash.faults $(ARGS)
fault-sample: setup ## run a fixed sample of faults
	@exec $(MAKE) -s faults ARGS='--faults 16 --look-every 8 --agents 4 --hosts 10 --seed 5'
broker-faults: setup ## run the messaging tests with longer broker outages than in `make test`
	@tools/test_servers.sh
	@KILONOVA_WHOLE=1 exec $(PYTHON) -m pytest tests/messaging $(ARGS)
restored: setup ## restore a database older than half of its 2,000 guests, on SQLite and PostgreSQL
	@tools/test_servers.sh
	@KILONOVA_WHOLE=1 exec $(PYTHON) -m pytest tests/databases/db/test_stray_guests_after_a_restore.py $(ARGS)

##@ Compare with peers
.PHONY: conformance conformance-nova conformance-scheduler conformance-policy conformance-schemas tempest tempest-sample horizon
conformance: setup ## run the tests that openstack-placement ships; ARGS='traits.yaml': one file
	@tools/peer.sh conformance
	@PYTHONPATH=tests exec tools/in_memory.sh $(PYTHON) -m conformance $(ARGS)
conformance-nova: setup ## run Nova's own Placement client against Kilonova's Placement
	@exec tools/nova_client.sh $(ARGS)
conformance-scheduler: setup ## compare Nova's filters and weighers with Kilonova's; ARGS='JsonFilter': one of them
	@tools/peer.sh nova
	@PYTHONPATH=src:tests exec .venv-nova/bin/python -m scheduler_peer $(ARGS)
conformance-policy: setup ## compare the policy rules with Nova's
	@exec tools/compare_policy.sh
conformance-schemas: setup ## compare requests and responses with the schemas of Nova's API (some minutes)
	@exec tools/compare_schemas.sh
tempest: setup ## run Tempest against a private cloud; ARGS=--sample: a sample; ARGS='test_keypairs': the tests that match
	@tools/peer.sh tempest
	@$(HYPERVISOR) $(NETWORKS) PYTHONPATH=tests exec tools/in_memory.sh $(PYTHON) -m tempest $(ARGS)
tempest-sample: ## run a fixed sample of Tempest
	@exec $(MAKE) -s tempest ARGS=--sample
horizon: setup ## test Horizon's compute panels with a browser against a whole cloud
	@exec tools/horizon.sh $(ARGS)
