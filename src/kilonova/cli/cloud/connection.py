# SPDX-License-Identifier: Apache-2.0
"""Reach a running cloud as its clients do: through ``clouds.yaml``, Keystone and the catalogue."""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml
from keystoneauth1 import exceptions as failures
from keystoneauth1.adapter import Adapter
from openstack.config import OpenStackConfig
from openstack.config.cloud_region import CloudRegion
from openstack.exceptions import ConfigException

from kilonova.cli.up.data_folder import default_folder
from kilonova.errors import ConfigurationError, Conflict, Forbidden, InvalidRequest, NotFound, Unavailable

DEFAULT_CLOUD = "kilonova"
FILE_VARIABLE = "OS_CLIENT_CONFIG_FILE"
CLOUD_VARIABLE = "OS_CLOUD"
_URL = re.compile(r"https?://[^\s'\"]+")

# Its warnings would stand beside the one line that says the same.
logging.getLogger("keystoneauth").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class CloudName:
    """A cloud of a ``clouds.yaml``; without a file it is looked for where every client looks."""

    name: str
    file: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a client has to find in its environment to use this cloud, and nothing else that would steer it."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        if self.file is not None:
            kept[FILE_VARIABLE] = str(self.file)
        return {**kept, CLOUD_VARIABLE: self.name}


def find_cloud(data: Path | None, os_cloud: str | None) -> CloudName:
    """Choose the cloud: of ``--data``, else of the environment's file, else of the default data folder, else any known.

    Raises: ConfigurationError, when the folder that was named has no ``clouds.yaml``, or the default one is none.
    """
    name = os_cloud or os.environ.get(CLOUD_VARIABLE) or DEFAULT_CLOUD
    if data is not None:
        file = data.expanduser().absolute() / "clouds.yaml"
        if not file.is_file():
            raise ConfigurationError(f"--data {data} has no clouds.yaml: start a cloud there with `kilonova up --data`")
        return CloudName(name if os_cloud else DEFAULT_CLOUD, file)
    if given := os.environ.get(FILE_VARIABLE):
        return CloudName(name, Path(given))
    usual = default_folder() / "clouds.yaml"
    return CloudName(name, usual if usual.is_file() and name in _clouds_in(usual) else None)


def _clouds_in(file: Path) -> Mapping[str, Any]:
    """Return what a file says of each cloud. Raises: ConfigurationError naming the file."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{file} is no YAML: {error}") from error
    clouds = (content.get("clouds") or {}) if isinstance(content, Mapping) else None
    if not isinstance(clouds, Mapping):
        raise ConfigurationError(f"{file} is no clouds.yaml: a mapping with the key clouds is expected")
    return clouds


class Connection:
    """Calls to one cloud as one of its users. Errors come as Kilonova's own.

    Raises, in every call: Unavailable when the cloud or the service cannot be reached, Forbidden, NotFound, Conflict,
    InvalidRequest for all other refusals.
    """

    def __init__(self, cloud: CloudName) -> None:
        self.cloud = cloud
        files = None
        if cloud.file is not None:
            _clouds_in(cloud.file)  # a file that is none would be passed over
            files = [str(cloud.file)]
        try:
            region: CloudRegion = OpenStackConfig(config_files=files, load_envvars=False).get_one(cloud=cloud.name)
            self._session = region.get_session()
        except (ConfigException, failures.ClientException) as error:
            raise ConfigurationError(f"cloud {cloud.name!r}: {error}") from error
        except (AttributeError, TypeError, ValueError, OSError, yaml.YAMLError) as error:
            # The library takes what is in the file at its word.
            where = cloud.file or "a clouds.yaml"
            raise ConfigurationError(f"cloud {cloud.name!r} of {where} cannot be used: {error}") from error
        self._region = region.get_region_name()

    @property
    def project_id(self) -> str:
        try:
            return str(self._session.get_project_id())
        except failures.ClientException as error:
            raise _as_own(error, "keystone", self.cloud) from error

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        return self.call("GET", service, path, version, params=query)

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any:
        """Return the decoded answer, None for an empty one. ``service``: type in the catalogue."""
        adapter = Adapter(self._session, service_type=service, interface="public", region_name=self._region)
        headers = {"OpenStack-API-Version": f"{service} {version}"} if version else {}
        try:
            reply = adapter.request(path, method, headers=headers, raise_exc=False, connect_retries=0, **arguments)
        except (failures.ClientException, requests.RequestException) as error:
            raise _as_own(error, service, self.cloud) from error
        if reply.status_code >= 400:
            raise _refusal(reply.status_code, _message(reply), service)
        return _answer(reply, service)


class _Answer(dict[str, Any]):
    """What a service answered. A field that is not in it is a fault of the service, not of who looks for it."""

    def __init__(self, content: Mapping[str, Any], service: str) -> None:
        super().__init__(content)
        self._service = service

    def __missing__(self, name: str) -> Any:
        raise Unavailable(f"the {self._service} service answered without {name!r}: is it a Kilonova?")


def _answer(reply: requests.Response, service: str) -> _Answer | None:
    """Return the decoded answer, None for an empty one to what reads nothing. Raises: Unavailable when it is none."""
    if not reply.content and reply.request.method != "GET":
        return None
    try:
        content = reply.json()
    except ValueError:
        content = None
    if not isinstance(content, Mapping):
        raise Unavailable(f"the {service} service answered with no JSON object: is it a Kilonova?")
    return _Answer(content, service)


def _as_own(error: Exception, service: str, cloud: CloudName) -> Exception:
    if isinstance(error, failures.EndpointNotFound):
        return Unavailable(f"the cloud's catalogue has no service of type {service!r}: is it a Kilonova?")
    if isinstance(error, failures.Unauthorized):
        where = f" of {cloud.file}" if cloud.file else ""
        return Unavailable(
            f"Keystone does not accept the password of cloud {cloud.name!r}{where}: was the cloud made anew since, "
            "or is another one running?"
        )
    url = _URL.search(str(error))
    return Unavailable(f"the cloud cannot be reached: no good answer from {url[0].rstrip('.:,') if url else service}")


def _refusal(status: int, message: str, service: str) -> Exception:
    if status == requests.codes.not_found:
        return NotFound(message)
    if status in (requests.codes.forbidden, requests.codes.unauthorized):
        return Forbidden(message)
    if status == requests.codes.conflict:
        return Conflict(message)
    if status >= 500:
        return Unavailable(f"the {service} service answered {status}: {message}")
    return InvalidRequest(message)


def _message(reply: requests.Response) -> str:
    try:
        body = reply.json()
    except ValueError:
        return _start_of(reply)
    fault = next(iter(body.values()), None) if isinstance(body, Mapping) else None
    return str(fault["message"]) if isinstance(fault, Mapping) and "message" in fault else _start_of(reply)


def _start_of(reply: requests.Response) -> str:
    return " ".join(reply.text[:200].split())
