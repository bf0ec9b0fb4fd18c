# SPDX-License-Identifier: Apache-2.0
# Every target sets up .venv first (once; later it costs a fraction of a second). ARGS='…' is passed on.
.DEFAULT_GOAL := help
.PHONY: help setup lock run test e2e guests guest-crashes conformance tempest tempest-sample fuzz properties races lint types bench soak crash-matrix crash-kills crash-sample broker-faults restored attack docs conformance-nova conformance-scheduler conformance-policy conformance-schemas horizon clean
CODE := src tests benchmarks examples
# Tests of one module run in one process, a process for each core; ARGS='-n 0' runs all of them in this one, as --pdb needs.
PARALLEL := -n logical --maxprocesses 8
# Tests that fail run once more, alone, unless ARGS say which tests to run.
TESTS := $(if $(ARGS),env KILONOVA_ONCE=1) tools/in_memory.sh tools/run_tests.sh
# What a host of real guests needs is installed when one is asked for.
HYPERVISOR = $(if $(findstring --hypervisor libvirt,$(subst =, ,$(strip $(ARGS)))),tools/hypervisor.sh &&)
# Tests start some hundred processes, which would compile the same modules each time.
unexport PYTHONDONTWRITEBYTECODE

help: ; @sed -n "s/^\([a-z0-9-]*\):.*## /  make \1\t/p" Makefile | expand -t 16 ## say what there is
setup: ; @tools/setup.sh ## make .venv from requirements.lock
lock: setup ; @tools/hypervisor.sh && exec .venv/bin/python tools/lock_hashes.py ## take the hashes of what requirements.lock and requirements-libvirt.lock name
run: setup ; @$(HYPERVISOR) exec .venv/bin/kilonova up $(ARGS) ## start a cloud, for instance ARGS='--hosts 5 --data DIR', or with real guests ARGS='--hypervisor libvirt'
test: setup ; @tools/test_servers.sh && exec $(TESTS) --ignore=tests/e2e --ignore=tests/guests $(ARGS) ## run the tests, on SQLite, PostgreSQL and MariaDB
e2e: setup ; @exec $(TESTS) tests/e2e $(ARGS) ## start whole clouds and use them with the stock client
guests: setup ; @tools/hypervisor.sh && tools/test_servers.sh && exec $(TESTS) tests/guests $(ARGS) ## run real guests by libvirt and QEMU
conformance: setup ; @tools/peer.sh conformance && PYTHONPATH=tests exec tools/in_memory.sh .venv/bin/python -m conformance $(ARGS) ## run the tests that openstack-placement ships, ARGS='traits.yaml' only some
tempest: setup ; @tools/peer.sh tempest && PYTHONPATH=tests exec tools/in_memory.sh .venv/bin/python -m tempest $(ARGS) ## run Tempest, the public suite, against a cloud of its own, ARGS=--sample some of it, ARGS='test_keypairs' those that match
tempest-sample: ; @exec $(MAKE) -s tempest ARGS=--sample ## a part of that
fuzz: setup ; @KILONOVA_WHOLE=1 KILONOVA_FUZZ_REQUESTS=10000 exec .venv/bin/python -m pytest $(PARALLEL) tests/fuzz tests/api/placement/test_placement_fuzz.py $(ARGS) ## send 10,000 requests to every route, most of them odd
properties: setup ; @KILONOVA_WHOLE=1 HYPOTHESIS_PROFILE=new exec .venv/bin/python -m pytest $(PARALLEL) tests/properties $(ARGS) ## try many new examples of every property, others each time
races: setup ; @tools/test_servers.sh && KILONOVA_WHOLE=1 exec .venv/bin/python -m pytest tests/concurrency $(ARGS) ## let processes race for the same hosts for longer than in the tests
lint: setup ; @.venv/bin/ruff check $(CODE) && exec .venv/bin/ruff format --check $(CODE) ## check style and format
types: setup ; @exec .venv/bin/mypy $(ARGS) ## check types, strictly
docs: setup ; @.venv/bin/kilonova docs notifications >docs/notifications.md && .venv/bin/kilonova docs states >docs/states.md && exec .venv/bin/kilonova docs states --format svg >docs/states.svg ## write the pages of docs/ that are made from the code
bench: setup ; @exec .venv/bin/python -m benchmarks $(ARGS) ## measure speed
soak: setup ; @tools/test_servers.sh && PYTHONPATH=tests exec .venv/bin/python -m concurrency.soak $(ARGS) ## 200,000 operations of 64 clients on PostgreSQL and on MariaDB, then check every sum
crash-matrix: setup ; @PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 exec .venv/bin/python -m crash.matrix $(ARGS) ## kill every workflow at every point of every step, then check the world, ARGS='--only resize' one of them
crash-kills: setup ; @PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 exec .venv/bin/python -m crash.kills $(ARGS) ## kill a working cloud 1,000 times at random, ARGS='--seed 7' as that time
crash-sample: setup ; @$(MAKE) -s crash-matrix ARGS='--sample 150 --seed 5' && exec $(MAKE) -s crash-kills ARGS='--kills 40 --commands 5 --seed 5' ## a part of both, the same every time
guest-crashes: setup ; @tools/hypervisor.sh && PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 exec .venv/bin/python -m crash.guest_matrix $(ARGS) ## kill a host of real guests before everything that it does, ARGS='--only rebuild' in one workflow
broker-faults: setup ; @tools/test_servers.sh && KILONOVA_WHOLE=1 exec .venv/bin/python -m pytest tests/messaging $(ARGS) ## kill, freeze and cut off the broker under traffic, each for longer than make test does
restored: setup ; @tools/test_servers.sh && KILONOVA_WHOLE=1 exec .venv/bin/python -m pytest tests/databases/test_guests_after_a_restore.py $(ARGS) ## restore a database of before half of 2,000 guests were made, on SQLite and PostgreSQL
faults: setup ; @tools/test_servers.sh && PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 exec .venv/bin/python -m crash.faults $(ARGS) ## kill, stop and cut off processes, broker and database of a working cloud, ARGS='--faults 300 --agents 20 --hosts 50'
fault-sample: setup ; @$(MAKE) -s faults ARGS='--faults 16 --look-every 8 --agents 4 --hosts 10 --seed 5' ## a part of that, the same every time
attack: setup ; @tools/test_servers.sh && PYTHONPATH=tests exec .venv/bin/python -m attack $(ARGS) ## attack a cloud of its own on SQLite and on PostgreSQL while another user works, ARGS='slow' only some
horizon: setup ; @tools/browser.sh && tools/peer.sh horizon && PYTHONPATH=src:tests exec .venv-horizon/bin/python -m pytest -c tests/horizon/pytest.ini --confcutdir=tests/horizon tests/horizon $(ARGS) ## use Horizon's compute panels with a browser, against a whole cloud
conformance-nova: setup ; @tools/peer.sh nova && exec .venv-nova/bin/python -m pytest -c tests/nova_peer/pytest.ini --confcutdir=tests/nova_peer tests/nova_peer $(ARGS) ## run Nova's own Placement client against Kilonova's Placement
conformance-scheduler: setup ; @tools/peer.sh nova && PYTHONPATH=src:tests exec .venv-nova/bin/python -m scheduler_peer $(ARGS) ## ask Nova's own filters and weighers the same as ours, ARGS='JsonFilter' only some
conformance-policy: setup ; @tools/peer.sh nova && .venv-nova/bin/python tests/policy_peer/nova_rules.py | PYTHONPATH=tests .venv/bin/python -m policy_peer ## compare the rules of policy with Nova's own
conformance-schemas: setup ; @tools/peer.sh nova && PYTHONPATH=tests .venv-nova/bin/python -W ignore tests/schema_peer/nova_schemas.py | PYTHONPATH=tests:tests/api .venv/bin/python -m schema_peer ## compare what is taken and answered with the schemas of Nova's own API, some minutes
clean: ; @rm -rf .venv .venv-* .novnc build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage && find . -name __pycache__ -prune -exec rm -rf {} + ## remove what make made
