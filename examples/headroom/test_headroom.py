# SPDX-License-Identifier: Apache-2.0
from headroom import HeadroomFilter

from kilonova.model.flavor import Flavor
from kilonova.model.provider import Inventory
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_records import HostRecord, build_host_table


def host(name, memory_mib):
    return HostRecord(name, inventories=(Inventory("MEMORY_MB", memory_mib),))


def test_a_host_keeps_its_headroom():
    hosts = build_host_table([host("small", 3071), host("big", 3072)])
    spec = RequestSpec(Flavor("1", "web", vcpus=1, memory_mib=2048, root_gib=0))
    assert HeadroomFilter(free_mib=1024).passes(hosts, spec).tolist() == [False, True]
