# SPDX-License-Identifier: Apache-2.0
"""The CPUs whose features libvirt is asked for: the host's own, and what guests get. Pure: makes and reads XML."""

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from kilonova.config.libvirt import LibvirtSettings


def host_cpu(capabilities: str) -> str | None:
    """Return the CPU of the host out of ``getCapabilities``, as libvirt takes it."""
    found = ET.fromstring(capabilities).find("host/cpu")  # noqa: S314  libvirtd's own words
    return None if found is None or found.find("model") is None else ET.tostring(found, encoding="unicode")


def guest_cpu(default_domain: str, architecture: str, settings: LibvirtSettings) -> str | None:
    """Return the CPU of guests, None where the emulator decides. ``default_domain``: of ``getDomainCapabilities``."""
    if settings.cpu_mode == "none":
        return None
    cpu = ET.Element("cpu")
    ET.SubElement(cpu, "arch").text = architecture
    if settings.cpu_mode == "custom":
        if not settings.cpu_models:
            return None
        ET.SubElement(cpu, "model").text = settings.cpu_models[0]
    else:  # what guests have of the host's own CPU is at least what is known of its model
        domain = ET.fromstring(default_domain)  # noqa: S314  libvirtd's own words
        mode = domain.find("cpu/mode[@name='host-model']")
        if mode is None or mode.get("supported") != "yes":
            return None
        cpu.extend(mode)
    return ET.tostring(cpu, encoding="unicode")


def features_of(expanded: str, asked: str, extra_flags: Iterable[str] = ()) -> frozenset[str]:
    """Return the features of a CPU that libvirt has ``expanded``. What ``asked`` disables it may name nevertheless.

    ``extra_flags``: features beside those, or, with a - before them, none of those.
    """
    found = _features(expanded, "require") - _features(asked, "disable")
    flags = [flag.strip().lower() for flag in extra_flags]
    more = {flag.lstrip("+") for flag in flags if flag and not flag.startswith("-")}
    return (found | more) - {flag[1:] for flag in flags if flag.startswith("-")}


def _features(text: str, policy: str) -> frozenset[str]:
    cpu = ET.fromstring(text)  # noqa: S314  libvirtd's own words
    return frozenset(each.get("name", "") for each in cpu.iterfind(f"feature[@policy='{policy}']"))
