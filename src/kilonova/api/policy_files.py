# SPDX-License-Identifier: Apache-2.0
"""The policy files of an operator: which they are, what they say, and what in them does not do what it seems to.

oslo.policy itself passes over rules that nobody asks, and refuses everybody where it cannot read a check.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oslo_policy import opts, policy
from oslo_policy.policy import parse_file_contents

from kilonova.api.former_rules import FORMER, NOT_HERE
from kilonova.errors import ConfigurationError

#: What ``[oslo_policy] policy_default_rule`` names unless it is set: it stands in for rules that are not there.
_DEFAULT = "default"
#: What checks may ask about what is asked for, as in ``project_id:%(project_id)s``.
OF_TARGETS = frozenset({"project_id", "user_id"})
_NAMED_OF_TARGETS = re.compile(r"%\((\w+(?:\.\w+)*)\)s")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is odd. ``is_harmless``: nobody has to mend it."""

    file: Path
    rule: str
    what: str
    is_harmless: bool = False

    def __str__(self) -> str:
        return f"{self.file}: {self.rule}: {self.what}"


def register_options(conf: Any) -> None:
    """Have ``[oslo_policy]`` in an oslo.config, which knows it from the first use of policy on otherwise."""
    opts.set_defaults(conf)


def use_file(conf: Any, file: Path) -> None:
    """Take another policy file than the configured one."""
    register_options(conf)
    conf.set_override("policy_file", str(file.absolute()), group="oslo_policy")


def files_of(conf: Any) -> tuple[Path, ...]:
    """Return the files in force in the order in which they are read: the policy file, those of ``policy_dirs``."""
    main = conf.find_file(conf.oslo_policy.policy_file)
    found = [Path(main)] if main else []
    for name in conf.oslo_policy.policy_dirs:
        folder = conf.find_file(name)
        if folder and Path(folder).is_dir():
            found += sorted(each for each in Path(folder).iterdir() if each.is_file() and not each.name.startswith("."))
    return tuple(found)


def missing_file(conf: Any) -> str | None:
    """Return the policy file that is configured and not there; None when it is, or when none is configured."""
    location = conf.get_location("policy_file", "oslo_policy")
    if location is None or not location.location.is_user_controlled:
        return None
    name: str = conf.oslo_policy.policy_file
    return None if conf.find_file(name) else name


def stamp_of(files: Iterable[Path]) -> tuple[tuple[str, int, int], ...]:
    """Return what is another one once a file has changed."""
    found = []
    for file in files:
        try:
            status = file.stat()
        except OSError:  # it is gone since it was listed
            continue
        found.append((str(file), status.st_mtime_ns, status.st_size))
    return tuple(found)


def read_file(file: Path) -> Mapping[str, str]:
    """Return rule → check of one file. Raises: ConfigurationError naming it."""
    try:
        said = parse_file_contents(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"Policy file {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ConfigurationError(f"Policy file {file} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(said, dict):
        raise ConfigurationError(f"Policy file {file} holds no rules: it has to be NAME: CHECK, line by line.")
    for name, check in said.items():
        if not isinstance(name, str) or not isinstance(check, (str, list)):
            raise ConfigurationError(f"Policy file {file}: {name}: a rule is a name and a check, both texts.")
    return said


def findings(
    said: Sequence[tuple[Path, Mapping[str, str]]],
    known: Iterable[str],
    of_tokens: Iterable[str],
    default_rule: str = _DEFAULT,
) -> Iterator[Finding]:
    """Yield what is odd in files. ``known``: names of all rules; ``of_tokens``: what checks may ask about callers."""
    rules = {name for _, content in said for name in content} | set(known)
    used = {wanted for _, content in said for check in content.values() for wanted in _referred(_parsed(check))}
    present = set(known)
    former = {was.name for was in FORMER.values()}
    for file, content in said:
        for name, text in content.items():
            if name in NOT_HERE - present:
                yield Finding(file, name, "a rule of Nova for something that there is not here", is_harmless=True)
            elif name not in present | former | used | {default_rule}:
                yield Finding(file, name, "no rule has this name, so it changes nothing")
            elif name in former - present:
                now = ", ".join(sorted(new for new, was in FORMER.items() if was.name == name and new in present))
                what = f"the former name of {now}" if now else "the former name of rules for what there is not here"
                yield Finding(file, name, what, is_harmless=True)
            yield from (Finding(file, name, what) for what in _errors(text, rules, set(of_tokens)))


def _errors(text: Any, rules: set[str], of_tokens: set[str]) -> Iterator[str]:
    check = _parsed(text)
    if _is_refusal(check) and str(text).strip("() \n") != "!":
        yield f"the check {text!r} cannot be understood, so nobody passes"
    for wanted in sorted(set(_referred(check)) - rules):
        yield f"it refers to rule:{wanted}, which is not there"
    for part in _leaves(check):
        kind, match = getattr(part, "kind", ""), str(getattr(part, "match", ""))
        if type(part).__name__ == "GenericCheck" and not _is_literal(kind) and kind.split(".")[0] not in of_tokens:
            yield f"{part}: nothing is known of a caller's {kind!r}, so it never holds"
        for name in _NAMED_OF_TARGETS.findall(match):
            if name not in OF_TARGETS:
                yield f"{part}: nothing is known of the {name!r} of what is asked for, so it never holds"


def _parsed(text: Any) -> Any:
    """Return a check as oslo.policy reads it, where it only logs what it does not understand."""
    return policy.RuleDefault("check", text).check


def _is_refusal(check: Any) -> bool:
    return type(check).__name__ == "FalseCheck"


def _is_literal(kind: str) -> bool:
    try:
        ast.literal_eval(kind)
    except (ValueError, SyntaxError):
        return False
    return True


def _leaves(check: Any) -> Iterator[Any]:
    """Yield the checks of which a check is made by ``and``, ``or`` and ``not``."""
    waiting = [check]
    for each in waiting:
        inner = [*getattr(each, "rules", ()), *([each.rule] if hasattr(each, "rule") else [])]
        waiting += inner
        if not inner:
            yield each


def _referred(check: Any) -> Iterator[str]:
    """Yield the names of the rules that a check refers to."""
    return (str(each.match) for each in _leaves(check) if type(each).__name__ == "RuleCheck")


def require_no_circle(rules: Mapping[str, Any]) -> None:
    """Raises: ConfigurationError for rules that refer to each other: whoever asked one of them would never end."""
    left = {name: set(_referred(check)) for name, check in rules.items()}
    while free := [name for name, wanted in left.items() if not wanted & left.keys()]:
        for name in free:
            del left[name]
    if left:
        names = ", ".join(sorted(left))
        raise ConfigurationError(f"Policy: a rule refers to itself, by way of others or directly; look at {names}.")
