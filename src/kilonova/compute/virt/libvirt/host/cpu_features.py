# SPDX-License-Identifier: Apache-2.0
"""XML descriptions of CPUs, the host's and the guests', with which libvirt is queried for CPU features."""

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from kilonova.config.libvirt import LibvirtSettings


def host_cpu(capabilities: str) -> str | None:
    """Return the XML of the host's CPU, taken from ``capabilities``; None if libvirt cannot be queried for this CPU.

    ``capabilities``: XML of ``getCapabilities``.
    """
    found = ET.fromstring(capabilities).find("host/cpu")  # noqa: S314 - the XML is from libvirtd
    return None if found is None or found.find("model") is None else ET.tostring(found, encoding="unicode")


def guest_cpu(default_domain: str, architecture: str, settings: LibvirtSettings) -> str | None:
    """Return the XML of the guests' CPU, or None if QEMU chooses the CPU.

    ``default_domain``: XML of ``getDomainCapabilities``.
    """
    if settings.cpu_mode == "none":
        return None
    cpu = ET.Element("cpu")
    ET.SubElement(cpu, "arch").text = architecture
    if settings.cpu_mode == "custom":
        if not settings.cpu_models:
            return None
        ET.SubElement(cpu, "model").text = settings.cpu_models[0]
    else:  # the CPU of a guest has at least the features of libvirt's host-model
        domain = ET.fromstring(default_domain)  # noqa: S314 - the XML is from libvirtd
        mode = domain.find("cpu/mode[@name='host-model']")
        if mode is None or mode.get("supported") != "yes":
            return None
        cpu.extend(mode)
    return ET.tostring(cpu, encoding="unicode")


def features_of(expanded: str, asked: str, extra_flags: Iterable[str] = ()) -> frozenset[str]:
    """Return the features of the CPU ``expanded``, which is libvirt's answer to a query for the CPU ``asked``.

    Features that ``asked`` disables are left out, although libvirt may list them.
    ``extra_flags``: features to add; features to leave out have a leading -.
    """
    found = _features(expanded, "require") - _features(asked, "disable")
    flags = [flag.strip().lower() for flag in extra_flags]
    more = {flag.lstrip("+") for flag in flags if flag and not flag.startswith("-")}
    return (found | more) - {flag[1:] for flag in flags if flag.startswith("-")}


def _features(text: str, policy: str) -> frozenset[str]:
    cpu = ET.fromstring(text)  # noqa: S314 - the XML is from libvirtd
    return frozenset(each.get("name", "") for each in cpu.iterfind(f"feature[@policy='{policy}']"))
