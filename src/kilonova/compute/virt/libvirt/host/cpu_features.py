# SPDX-License-Identifier: Apache-2.0
"""CPU descriptions for feature queries to libvirt: the host's CPU and the guests' CPU. Pure XML functions."""

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from kilonova.config.libvirt import LibvirtSettings


def host_cpu(capabilities: str) -> str | None:
    """Return the host's CPU from ``getCapabilities``, in the form that libvirt accepts."""
    found = ET.fromstring(capabilities).find("host/cpu")  # noqa: S314  libvirtd's own words
    return None if found is None or found.find("model") is None else ET.tostring(found, encoding="unicode")


def guest_cpu(default_domain: str, architecture: str, settings: LibvirtSettings) -> str | None:
    """Return the guests' CPU, or None if the emulator decides. ``default_domain``: ``getDomainCapabilities``."""
    if settings.cpu_mode == "none":
        return None
    cpu = ET.Element("cpu")
    ET.SubElement(cpu, "arch").text = architecture
    if settings.cpu_mode == "custom":
        if not settings.cpu_models:
            return None
        ET.SubElement(cpu, "model").text = settings.cpu_models[0]
    else:  # features of a guest's CPU are at least those of the host's model
        domain = ET.fromstring(default_domain)  # noqa: S314  libvirtd's own words
        mode = domain.find("cpu/mode[@name='host-model']")
        if mode is None or mode.get("supported") != "yes":
            return None
        cpu.extend(mode)
    return ET.tostring(cpu, encoding="unicode")


def features_of(expanded: str, asked: str, extra_flags: Iterable[str] = ()) -> frozenset[str]:
    """Return the features of an ``expanded`` CPU without those that ``asked`` disables, which libvirt may list anyway.

    ``extra_flags``: additional features, or, with a leading -, excluded ones.
    """
    found = _features(expanded, "require") - _features(asked, "disable")
    flags = [flag.strip().lower() for flag in extra_flags]
    more = {flag.lstrip("+") for flag in flags if flag and not flag.startswith("-")}
    return (found | more) - {flag[1:] for flag in flags if flag.startswith("-")}


def _features(text: str, policy: str) -> frozenset[str]:
    cpu = ET.fromstring(text)  # noqa: S314  libvirtd's own words
    return frozenset(each.get("name", "") for each in cpu.iterfind(f"feature[@policy='{policy}']"))
