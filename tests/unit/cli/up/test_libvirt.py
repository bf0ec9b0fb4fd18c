# SPDX-License-Identifier: Apache-2.0
"""What ``kilonova up --hypervisor libvirt`` decides before it starts anything; tests/guests has a whole cloud."""

import configparser
from pathlib import Path
from typing import Any

import pytest

from kilonova.bundled_services.ovn import Ovn
from kilonova.cli.main import main
from kilonova.cli.up import cloud_files, libvirt
from kilonova.cli.up.agents import require_possible, share_out
from kilonova.cli.up.cloud_files import Cloud
from kilonova.cli.up.host_options import GuestsOnStop
from kilonova.cli.up.libvirt import LibvirtSide, host_name, require_networks
from kilonova.cli.up.real_hosts import RealHosts, host_names
from kilonova.errors import ConfigurationError

ELSEWHERE = {"libvirt": {"connection_uri": "qemu:///system"}, "DEFAULT": {"host": "metal7"}}


def test_a_machine_that_lacks_something_is_told_what_and_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libvirt, "missing_programs", lambda: ("libvirtd", "qemu-img"))
    monkeypatch.setattr(libvirt, "find_spec", lambda _name: None)
    assert main(["up", "--hypervisor", "libvirt", "--data", str(tmp_path / "cloud")]) == 2
    assert capsys.readouterr().err == (
        "kilonova: --hypervisor libvirt needs libvirtd, qemu-img and libvirt-python; "
        "tools/hypervisor.sh installs what is missing\n"
    )
    assert not (tmp_path / "cloud").exists()


def test_only_the_bindings_are_needed_for_a_libvirtd_that_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libvirt, "missing_programs", lambda: ("libvirtd",))
    monkeypatch.setattr(libvirt, "find_spec", lambda _name: object())
    libvirt.require_libvirt(ELSEWHERE)
    with pytest.raises(ConfigurationError, match="needs libvirtd;"):
        libvirt.require_libvirt({})


def test_its_host_may_not_have_the_name_of_a_simulated_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libvirt, "missing_programs", tuple)
    monkeypatch.setattr(libvirt, "find_spec", lambda _name: object())
    (tmp_path / "more.conf").write_text("[DEFAULT]\nhost = node2\n")
    words = ["up", "--hypervisor", "libvirt", "--hosts", "2", "--config-file", str(tmp_path / "more.conf")]
    assert main([*words, "--data", str(tmp_path / "cloud")]) == 2
    assert capsys.readouterr().err == (
        "kilonova: a simulated host has the name node2, too; set [DEFAULT] host in --config-file\n"
    )


def test_it_uses_the_libvirtd_that_the_operator_names_and_no_other(tmp_path: Path) -> None:
    side = LibvirtSide(tmp_path, host_name(ELSEWHERE), ELSEWHERE)
    side.start()
    assert side.libvirtd is None
    assert side.options()["libvirt"] == {"connection_uri": "qemu:///system"}
    assert side.stop(GuestsOnStop.STOP) == "", "guests of somebody else's libvirtd are nobody's business"
    assert not (tmp_path / "libvirt").exists()


@pytest.mark.parametrize(
    ("wanted", "reason", "filters", "option"),
    [
        ("", None, False, None),
        ("", "a tiny guest was stopped", True, "qemu"),
        ("qemu", None, True, None),
        ("kvm", "a tiny guest was stopped", False, None),
    ],
)
def test_kvm_is_tried_before_libvirtd_is_told_how_to_look_at_emulators(
    tmp_path: Path, wanted: str, reason: str | None, filters: bool, option: str | None
) -> None:
    tries: list[str | None] = []

    def trial() -> str | None:
        tries.append(reason)
        return reason

    side = LibvirtSide(tmp_path, "metal7", {"libvirt": {"virt_type": wanted}}, trial)
    assert side.libvirtd is not None
    assert side.libvirtd.emulates is filters
    assert side.options()["libvirt"].get("virt_type") == option
    assert len(tries) == (0 if wanted else 1)
    assert LibvirtSide(tmp_path, "metal7", ELSEWHERE, trial).why_emulated is None, "of its KVM nothing is known here"


def test_the_control_process_serves_the_host_beside_the_simulated_ones(cloud: Cloud) -> None:
    side = LibvirtSide(cloud.folder, "metal7", ELSEWHERE)
    conf = _conf(cloud, parts=[side.control_options(serves=True)])
    assert conf["fake"]["hosts"] == "7"
    assert dict(conf["libvirt"]) == {"connection_uri": "qemu:///system"}
    expected = {
        "compute_driver": "libvirt.LibvirtDriver",
        "host": "metal7",
        "instances_path": str(cloud.folder / "instances"),
        "control_serves_host": "true",
        "allow_resize_to_same_host": "true",
    }
    assert expected.items() <= dict(conf["DEFAULT"]).items()
    assert "compute_driver" not in _conf(cloud, parts=[side.control_options(serves=False)])["DEFAULT"]
    assert "compute_driver" not in _conf(cloud)["DEFAULT"]


def test_guests_with_networks_have_consoles_at_an_address_in_their_namespace(tmp_path: Path) -> None:
    virt_type = {"libvirt": {"virt_type": "qemu"}}
    (host,) = Ovn(tmp_path, "metal7").hosts
    side = LibvirtSide(tmp_path, "metal7", virt_type, network=host)
    address = host.network.console_address
    options = side.options()
    assert options["vnc"] == {"server_listen": address, "server_proxyclient_address": address}
    assert options["serial_console"] == {"proxyclient_address": address}
    assert options["DEFAULT"]["metadata_socket"] == host.agent
    assert "neutron" not in side.control_options(serves=True)  # the secret of Neutron's agents is not needed
    proxied = LibvirtSide(tmp_path, "metal7", virt_type, network=host, proxied_at="192.0.2.2").options()
    assert proxied["vnc"] == {"server_listen": address, "server_proxyclient_address": "192.0.2.2"}
    assert proxied["serial_console"] == {"proxyclient_address": "192.0.2.2", "server_listen": address}
    without = LibvirtSide(tmp_path, "metal7", virt_type)
    assert without.metadata is None
    assert "vnc" not in without.options()
    assert "metadata_socket" not in without.options()["DEFAULT"]


def test_networks_are_possible_for_real_guests_of_this_cloud_only() -> None:
    possible = lambda **_: None  # noqa: E731
    require_networks({}, 0, possible)
    with pytest.raises(ConfigurationError, match="needs the libvirtd of `kilonova up`"):
        require_networks(ELSEWHERE, 0, possible)
    with pytest.raises(ConfigurationError, match="for real guests or for simulated hosts, not for both"):
        require_networks({}, 1, possible)
    with pytest.raises(ConfigurationError, match="needs root"):
        require_networks({}, 0, lambda **_: "--networks needs root")


def test_with_agents_the_last_one_has_the_host_alone() -> None:
    assert share_out(["node1", "node2"], 3, ("metal7",)) == {
        "agent1": ("node1",),
        "agent2": ("node2",),
        "agent3": ("metal7",),
    }
    assert share_out([], 1, ("metal7",)) == {"agent1": ("metal7",)}
    assert share_out([], 2, ("metal7", "metal7-2")) == {"agent1": ("metal7",), "agent2": ("metal7-2",)}
    require_possible(1, 0, {}, ("metal7",))
    require_possible(2, 0, {}, ("metal7", "metal7-2"))
    require_possible(3, 2, {}, ("metal7",))
    with pytest.raises(ConfigurationError, match="--agents 2 exceeds the number of hosts"):
        require_possible(2, 0, {}, ("metal7",))
    with pytest.raises(ConfigurationError, match="--agents 1 is too few"):
        require_possible(1, 2, {}, ("metal7",))


def _conf(cloud: Cloud, **more: Any) -> configparser.ConfigParser:
    cloud_files.write_conf(cloud, None, **more)
    conf = configparser.ConfigParser(interpolation=None, default_section="(none)")
    conf.read(cloud.conf)
    return conf


def test_several_hosts_need_as_many_agents() -> None:
    for agents in (0, 1, 3):
        with pytest.raises(ConfigurationError, match="--libvirt-hosts 2 needs --agents 2"):
            require_possible(agents, 0, {}, ("metal7", "metal7-2"))


def test_several_hosts_have_folders_networks_and_process_names_of_their_own(tmp_path: Path) -> None:
    virt_type = {"libvirt": {"virt_type": "qemu"}}
    names = host_names("metal7", 3)
    assert names == ("metal7", "metal7-2", "metal7-3")
    real = RealHosts(tmp_path, names, virt_type, networks=True)
    options = [side.options() for side in real.sides]
    for section, option in (
        ("DEFAULT", "instances_path"),
        ("DEFAULT", "metadata_socket"),
        ("libvirt", "connection_uri"),
    ):
        assert len({str(each[section][option]) for each in options}) == 3
    assert len({each["vnc"]["server_listen"] for each in options}) == 3
    processes = [*real.libvirtds, *real.network_processes]
    assert len({process.name for process in processes}) == len(processes)
    assert len({process.log for process in processes}) == len(processes)
    assert "ovn-vswitchd of metal7-2" in {process.name for process in processes}
    assert options[0]["DEFAULT"]["instances_path"] == tmp_path / "instances"


def test_kvm_is_tested_once(tmp_path: Path) -> None:
    tests = []
    real = RealHosts(tmp_path, ("a", "b"), {}, lambda: tests.append("x") or "no /dev/kvm")
    assert real.why_emulated == "no /dev/kvm"
    assert tests == ["x"]
