# SPDX-License-Identifier: Apache-2.0
"""Connection to a running cloud, made as by any OpenStack client: with ``clouds.yaml``, Keystone and the catalogue."""

import logging
import os
import re
from collections.abc import Mapping
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
from kilonova.records import dataclass

DEFAULT_CLOUD = "kilonova"
FILE_VARIABLE = "OS_CLIENT_CONFIG_FILE"
CLOUD_VARIABLE = "OS_CLOUD"
_URL = re.compile(r"https?://[^\s'\"]+")

# keystoneauth's warnings would repeat the error that the command prints.
logging.getLogger("keystoneauth").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class CloudName:
    """A cloud in a ``clouds.yaml``.

    ``file`` None: openstacksdk searches for a ``clouds.yaml`` in its standard places.
    """

    name: str
    file: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for a client of this cloud.

        All inherited variables that begin with ``OS_`` are removed.
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        if self.file is not None:
            kept[FILE_VARIABLE] = str(self.file)
        return {**kept, CLOUD_VARIABLE: self.name}


def find_cloud(data: Path | None, os_cloud: str | None) -> CloudName:
    """Return the cloud of ``--data``, of the environment, of the default data folder, or of the SDK's standard places.

    The first of these four that is given or exists is used. Raises: ConfigurationError if the folder of ``--data`` has
    no ``clouds.yaml``, or if the file is invalid.
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
    """Return cloud name → settings from a ``clouds.yaml``. Raises: ConfigurationError naming the file."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{file} is not valid YAML: {error}") from error
    clouds = (content.get("clouds") or {}) if isinstance(content, Mapping) else None
    if not isinstance(clouds, Mapping):
        raise ConfigurationError(f"{file} is not a clouds.yaml: it needs a mapping with the key clouds")
    return clouds


class Connection:
    """Calls the APIs of one cloud as one of its users. Failures are raised as Kilonova's own exceptions.

    A call raises Unavailable if the service cannot be reached, or answers with a 5xx status; Forbidden for status 401
    or 403; NotFound for 404; Conflict for 409; InvalidRequest for any other 4xx status.
    """

    def __init__(self, cloud: CloudName, session: Any = None, region: str | None = None) -> None:
        """Connect to a cloud of a ``clouds.yaml``, or with a ``session`` of keystoneauth in this ``region``.

        Raises: ConfigurationError.
        """
        self.cloud = cloud
        if session is not None:
            self._session, self._region = session, region
            return
        files = None
        if cloud.file is not None:
            _clouds_in(cloud.file)  # openstacksdk ignores an invalid file silently
            files = [str(cloud.file)]
        try:
            chosen: CloudRegion = OpenStackConfig(config_files=files, load_envvars=False).get_one(cloud=cloud.name)
            self._session = chosen.get_session()
        except (ConfigException, failures.ClientException) as error:
            raise ConfigurationError(f"cloud {cloud.name!r}: {error}") from error
        except (AttributeError, TypeError, ValueError, OSError, yaml.YAMLError) as error:
            # openstacksdk does not validate the types of values in the file.
            where = cloud.file or "a clouds.yaml"
            raise ConfigurationError(f"cloud {cloud.name!r} of {where} cannot be used: {error}") from error
        self._region = chosen.get_region_name()

    @property
    def project_id(self) -> str:
        try:
            return str(self._session.get_project_id())
        except failures.ClientException as error:
            raise _as_own(error, "keystone", self.cloud) from error

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any:
        return self.call("GET", service, path, version, params=query)

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any:
        """Send a request. Return the decoded answer, or None if it is empty.

        ``service``: service type in the catalogue.
        """
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
    """The answer of a service. Reading a field that the service has not sent raises Unavailable."""

    def __init__(self, content: Mapping[str, Any], service: str) -> None:
        super().__init__(content)
        self._service = service

    def __missing__(self, name: str) -> Any:
        raise Unavailable(f"the {self._service} service answered without the field {name!r}: is it Kilonova?")


def _answer(reply: requests.Response, service: str) -> _Answer | None:
    """Return the decoded answer, or None for an empty answer to a request other than GET."""
    if not reply.content and reply.request.method != "GET":
        return None
    try:
        content = reply.json()
    except ValueError:
        content = None
    if not isinstance(content, Mapping):
        raise Unavailable(f"the {service} service answered, but not with a JSON object: is it Kilonova?")
    return _Answer(content, service)


def _as_own(error: Exception, service: str, cloud: CloudName) -> Exception:
    if isinstance(error, failures.EndpointNotFound):
        return Unavailable(f"the cloud's catalogue has no service of type {service!r}: is it Kilonova?")
    if isinstance(error, failures.Unauthorized):
        where = f" of {cloud.file}" if cloud.file else ""
        return Unavailable(
            f"Keystone rejects the password of cloud {cloud.name!r}{where}: the cloud may have been recreated, "
            "or another cloud may be running"
        )
    url = _URL.search(str(error))
    return Unavailable(f"the cloud cannot be reached: no valid answer from {url[0].rstrip('.:,') if url else service}")


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
